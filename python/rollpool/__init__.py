"""The trainer's side of a rollpool."""

from .payload import (
    Certificate,
    Payload,
    PayloadError,
    Sequence,
    Turn,
    VersionSpan,
    decode_payload,
    decode_trace,
)

__all__ = [
    "Certificate",
    "Payload",
    "PayloadError",
    "Sequence",
    "Turn",
    "VersionSpan",
    "decode_payload",
    "decode_trace",
]
