from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollpool import PayloadError, Sequence, Turn, VersionSpan, decode_payload, decode_trace

GOLDEN = Path(__file__).parents[2] / "test" / "fixtures" / "payload"
VECTORS = sorted(path.stem for path in GOLDEN.glob("*.bin"))


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.bin").read_bytes()


def turn_as_json(turn: Turn) -> dict[str, Any]:
    fields = asdict(turn)
    spans = list(fields.pop("version_spans"))
    return {**fields, "version_spans": spans} if spans else fields


def as_json(sequence: Sequence) -> dict[str, Any]:
    return {
        "role": sequence.role,
        "agent_id": sequence.agent_id,
        "token_ids": sequence.token_ids.tolist(),
        "prompt_len": sequence.prompt_len,
        "loss_mask": sequence.loss_mask.tolist(),
        "logprobs": sequence.logprobs.tolist(),
        "turns": [turn_as_json(turn) for turn in sequence.turns],
        "certificate": {
            "grade": sequence.certificate.grade,
            "reasons": list(sequence.certificate.reasons),
            "notes": list(sequence.certificate.notes),
        },
    }


def test_there_are_golden_payloads() -> None:
    assert {"empty", "one-chain", "forked", "untrainable"} <= set(VECTORS)


@pytest.mark.parametrize("name", VECTORS)
def test_golden_payload_decodes_to_its_json(name: str) -> None:
    expected = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    for sequence in expected["sequences"]:
        sequence["logprobs"] = np.array(sequence["logprobs"], dtype=np.float32).tolist()
    payload = decode_payload(golden(name))
    assert [as_json(sequence) for sequence in payload.sequences] == expected["sequences"]
    assert payload.trace == expected["trace"]
    assert decode_trace(golden(name)) == expected["trace"]


@pytest.mark.parametrize("name", VECTORS)
def test_arrays_have_their_types_and_equal_length(name: str) -> None:
    for sequence in decode_payload(golden(name)).sequences:
        assert sequence.token_ids.dtype == np.int32
        assert sequence.loss_mask.dtype == np.uint8
        assert sequence.logprobs.dtype == np.float32
        assert sequence.token_ids.shape == sequence.loss_mask.shape == sequence.logprobs.shape
        assert not sequence.logprobs[sequence.loss_mask == 0].any()


def test_version_spans_are_read_where_the_engine_said_them() -> None:
    (sequence,) = decode_payload(golden("version-spans")).sequences
    assert sequence.turns[0].version_spans == (VersionSpan(2, 3, 3), VersionSpan(3, 5, 4))
    assert sequence.turns[1].version_spans == (VersionSpan(6, 7, "step-5"),)
    (plain,) = decode_payload(golden("one-chain")).sequences
    assert [turn.version_spans for turn in plain.turns] == [(), ()]


def test_token_ids_that_are_not_shared_are_a_view_of_the_payload() -> None:
    data = golden("one-chain")
    (sequence,) = decode_payload(data).sequences
    assert np.shares_memory(sequence.token_ids, np.frombuffer(data, dtype=np.uint8))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_read_at_any_alignment(kind: type) -> None:
    data = golden("forked")
    expected = [as_json(sequence) for sequence in decode_payload(data).sequences]
    for offset in range(1, 4):
        moved = memoryview(kind(b"\xff" * offset + data))[offset:]
        assert [as_json(sequence) for sequence in decode_payload(moved).sequences] == expected


@pytest.mark.parametrize("name", VECTORS)
def test_one_wrong_bit_anywhere_is_refused(name: str) -> None:
    data = golden(name)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << (at % 8)
        with pytest.raises(PayloadError):
            decode_payload(damaged)
        with pytest.raises(PayloadError):
            decode_trace(damaged)


@pytest.mark.parametrize("name", VECTORS)
def test_a_payload_cut_anywhere_is_refused(name: str) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises(PayloadError, match=r"^cut short"):
            decode_payload(data[:length])


@pytest.mark.parametrize(
    ("at", "replacement", "message"),
    [
        (0, b"{", "does not start with RPPL"),
        (4, b"\x02", "version 2, this reader knows version 1"),
        (6, b"\x01", "reserved bytes"),
        (40, b"\xff", "checksum is"),
    ],
)
def test_the_message_says_what_is_wrong(at: int, replacement: bytes, message: str) -> None:
    data = bytearray(golden("one-chain"))
    data[at : at + len(replacement)] = replacement
    with pytest.raises(PayloadError, match=message):
        decode_payload(data)


def test_bytes_behind_a_payload_are_refused() -> None:
    with pytest.raises(PayloadError, match="3 bytes too many"):
        decode_payload(golden("empty") + b"\0\0\0")


def reseal(data: bytearray) -> bytes:
    """A right checksum over wrong content, as a faulty writer would leave it."""
    struct.pack_into("<I", data, 8, zlib.crc32(data[12:]))
    return bytes(data)


def test_a_trace_that_does_not_inflate_to_what_the_preamble_says_is_refused() -> None:
    data = bytearray(golden("one-chain"))
    (inflated,) = struct.unpack_from("<I", data, 28)
    for wrong in (inflated - 1, inflated + 1, 0):
        struct.pack_into("<I", data, 28, wrong)
        with pytest.raises(PayloadError, match="trace does not inflate"):
            decode_trace(reseal(data))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\xa6length", b"\xa6lenght"),
        (b"\xa4mask\x94\x04\x02", b"\xa4mask\x94\x04\xfe"),
        (b"\xa5start", b"\xa5stort"),
        (b"\xa9sequences\x91", b"\xa9sequences\x01"),
    ],
)
def test_a_header_without_what_it_must_have_is_refused(old: bytes, new: bytes) -> None:
    data = golden("one-chain")
    assert data.count(old) >= 1
    with pytest.raises(PayloadError):
        decode_payload(reseal(bytearray(data.replace(old, new, 1))))


def test_arrays_that_do_not_fit_the_header_are_refused() -> None:
    data = bytearray(golden("one-chain"))
    tokens, logprobs = struct.unpack_from("<II", data, 12)
    for wrong_tokens in (tokens - 1, tokens + 1):
        struct.pack_into("<II", data, 12, wrong_tokens, logprobs + tokens - wrong_tokens)
        with pytest.raises(PayloadError, match=r"do not fit the header|left over"):
            decode_payload(reseal(data))
