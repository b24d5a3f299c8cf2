"""Messages between the worker and the hand: [u32 length][u16 header length][header, JSON][body, any bytes]."""

import json
import struct

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message; more is a broken peer."""

_HEAD = struct.Struct(">IH")


def encode(header, body=b""):
    text = json.dumps(header, separators=(",", ":")).encode()
    return _HEAD.pack(2 + len(text) + len(body), len(text)) + text + body


class Decoder:
    """Takes bytes as they come and gives whole messages."""

    def __init__(self):
        self._held = bytearray()

    def feed(self, data):
        self._held += data
        messages = []
        at = 0
        while len(self._held) - at >= _HEAD.size:
            length, header_length = _HEAD.unpack_from(self._held, at)
            if length > MAX_MESSAGE or header_length + 2 > length:
                raise ValueError("a message that cannot be")
            end = at + 4 + length
            if len(self._held) < end:
                break
            start = at + _HEAD.size
            header = json.loads(bytes(self._held[start : start + header_length]))
            messages.append((header, bytes(self._held[start + header_length : end])))
            at = end
        del self._held[:at]
        return messages
