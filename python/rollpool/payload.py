"""Reader of episode payloads, format version 1 (docs/payload.md in the repository)."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import msgpack
import numpy as np
import numpy.typing as npt

Buffer: TypeAlias = bytes | bytearray | memoryview
Role: TypeAlias = Literal["main", "subagent", "auxiliary"]
Grade: TypeAlias = Literal["exact", "forked", "untrainable"]

_MAGIC = b"RPPL"
_VERSION = 1
# magic, version, reserved, checksum, tokens, logprobs, header bytes, trace bytes, trace bytes inflated
_PREAMBLE = struct.Struct("<4sHHIIIIII")
_CHECKED_FROM = 12


class PayloadError(ValueError):
    """The bytes are not a whole, undamaged payload of this version."""


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """Tokens [start, end) of a sequence that one version of the weights sampled, as the engine says it."""

    start: int
    end: int
    version: int | str


@dataclass(frozen=True, slots=True)
class Turn:
    """The half-open span [start, end) of a sequence that one model call sampled.

    ``version_spans`` is empty where the engine said no more than ``version_start`` and ``version_end`` do.
    """

    start: int
    end: int
    call: int
    version_start: int | None
    version_end: int | None
    temperature: float
    finish_reason: str
    truncated: bool
    version_spans: tuple[VersionSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class Certificate:
    """Whether the sequence may be trained on, and why not."""

    grade: Grade
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Sequence:
    """One token sequence of one agent. The three arrays have equal length.

    ``token_ids`` (int32) is a view of the payload where nothing had to be joined. ``loss_mask`` (uint8) is 1
    exactly on sampled tokens; ``logprobs`` (float32) is the engine's own value there and 0 elsewhere.
    """

    role: Role
    agent_id: str
    token_ids: npt.NDArray[np.int32]
    prompt_len: int
    loss_mask: npt.NDArray[np.uint8]
    logprobs: npt.NDArray[np.float32]
    turns: tuple[Turn, ...]
    certificate: Certificate


@dataclass(frozen=True, slots=True, eq=False)
class Payload:
    """What one attempt of an episode left beside its result summary."""

    sequences: tuple[Sequence, ...]
    trace: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Frame:
    """The sections of a payload whose preamble, length and checksum are right."""

    tokens: npt.NDArray[np.int32]
    logprobs: npt.NDArray[np.float32]
    header: memoryview
    trace: memoryview
    trace_bytes: int


def _open_frame(data: Buffer) -> _Frame:
    view = memoryview(data).cast("B")
    if len(view) < _PREAMBLE.size:
        raise PayloadError(f"cut short: {len(view)} bytes, the preamble alone has {_PREAMBLE.size}")
    magic, version, reserved, checksum, tokens, logprobs, header, trace, trace_bytes = _PREAMBLE.unpack_from(
        view
    )
    if magic != _MAGIC:
        raise PayloadError("does not start with RPPL: not a payload")
    if version != _VERSION:
        raise PayloadError(f"version {version}, this reader knows version {_VERSION}")
    if reserved != 0:
        raise PayloadError("reserved bytes 6 and 7 are not zero")
    logprobs_at = _PREAMBLE.size + 4 * tokens
    header_at = logprobs_at + 4 * logprobs
    trace_at = header_at + header
    end = trace_at + trace
    if len(view) < end:
        raise PayloadError(f"cut short: {len(view)} of {end} bytes")
    if len(view) > end:
        raise PayloadError(f"{len(view) - end} bytes too many")
    found = zlib.crc32(view[_CHECKED_FROM:])
    if found != checksum:
        raise PayloadError(f"checksum is {found:x}, should be {checksum:x}: damaged")
    return _Frame(
        tokens=np.frombuffer(view[_PREAMBLE.size : logprobs_at], dtype="<i4"),
        logprobs=np.frombuffer(view[logprobs_at:header_at], dtype="<f4"),
        header=view[header_at:trace_at],
        trace=view[trace_at:end],
        trace_bytes=trace_bytes,
    )


def _unpack(what: str, data: memoryview | bytes) -> dict[str, Any]:
    try:
        value = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException) as error:
        raise PayloadError(f"{what} is not MessagePack") from error
    if not isinstance(value, dict):
        raise PayloadError(f"{what} is not a map")
    return value


def _read_trace(frame: _Frame) -> dict[str, Any]:
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(frame.trace, max(frame.trace_bytes, 1))
    except zlib.error as error:
        raise PayloadError("trace does not inflate") from error
    if len(raw) != frame.trace_bytes or not inflater.eof:
        raise PayloadError(f"trace does not inflate to {frame.trace_bytes} bytes")
    return _unpack("trace", raw)


def _turn(fields: dict[str, Any]) -> Turn:
    spans = fields.get("version_spans", ())
    return Turn(**{**fields, "version_spans": tuple(VersionSpan(**span) for span in spans)})


def _read_sequences(frame: _Frame) -> tuple[Sequence, ...]:
    sequences: list[Sequence] = []
    next_token = 0
    next_logprob = 0
    for header in _unpack("header", frame.header)["sequences"]:
        length: int = header["length"]
        shared: int = header["shared"]

        token_ids = frame.tokens[next_token : next_token + length - shared]
        if len(token_ids) != length - shared:
            raise PayloadError("token ids do not fit the header")
        next_token += length - shared
        if shared > 0:
            if not 0 <= header["base"] < len(sequences):
                raise PayloadError(f"base {header['base']} is no earlier sequence")
            prefix = sequences[header["base"]].token_ids[:shared]
            if len(prefix) != shared:
                raise PayloadError(f"base {header['base']} has no {shared} tokens to share")
            token_ids = np.concatenate((prefix, token_ids))

        runs = header["mask"]
        if sum(runs) != length:
            raise PayloadError(f"mask runs cover {sum(runs)} of {length} tokens")
        loss_mask = np.repeat(np.arange(len(runs), dtype=np.uint8) & 1, runs)
        sampled = int(sum(runs[1::2]))
        if next_logprob + sampled > len(frame.logprobs):
            raise PayloadError("logprobs do not fit the header")
        logprobs = np.zeros(length, dtype=np.float32)
        logprobs[loss_mask.view(np.bool_)] = frame.logprobs[next_logprob : next_logprob + sampled]
        next_logprob += sampled

        certificate = header["certificate"]
        sequences.append(
            Sequence(
                role=header["role"],
                agent_id=header["agent_id"],
                token_ids=token_ids,
                prompt_len=header["prompt_len"],
                loss_mask=loss_mask,
                logprobs=logprobs,
                turns=tuple(_turn(turn) for turn in header["turns"]),
                certificate=Certificate(
                    grade=certificate["grade"],
                    reasons=tuple(certificate["reasons"]),
                    notes=tuple(certificate["notes"]),
                ),
            )
        )
    if next_token != len(frame.tokens) or next_logprob != len(frame.logprobs):
        raise PayloadError("token ids or logprobs are left over")
    return tuple(sequences)


def decode_payload(data: Buffer) -> Payload:
    """Decode a payload. Raises PayloadError for anything that is not a whole, undamaged one."""
    frame = _open_frame(data)
    try:
        sequences = _read_sequences(frame)
    except PayloadError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"header is malformed: {error!r}") from error
    return Payload(sequences=sequences, trace=_read_trace(frame))


def decode_trace(data: Buffer) -> dict[str, Any]:
    """Decode the trace alone: ``{"calls": [...]}``. Raises PayloadError as ``decode_payload`` does."""
    return _read_trace(_open_frame(data))
