"""Comparisons of text that verifiers call without importing them."""

from __future__ import annotations

import json
import re
import string

_NUMBER = re.compile(r"-?\d+\.?\d*")
_NO_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))


def _folded(text: str) -> str:
    """Lower case, without punctuation and without any white space."""
    return "".join(text.lower().translate(_NO_PUNCTUATION).split())


def _as_text(value: object) -> str:
    return json.dumps(value, sort_keys=True) if isinstance(value, (dict, list)) else str(value)


def normalized_contains(target: str, blob: object) -> bool:
    return _folded(target) in _folded(_as_text(blob))


def normalized_string_comparison(target: str, blob: object) -> bool:
    return _folded(target) == _folded(_as_text(blob))


def extract_numbers(text: str) -> list[float]:
    """All numbers in order; commas between digits group them."""
    return [float(number) for number in _NUMBER.findall(text.replace(",", ""))]


def contains_number(text: str, target_number: object) -> bool:
    target = target_number.replace(",", "") if isinstance(target_number, str) else target_number
    try:
        wanted = float(target)  # type: ignore[arg-type]
    except ValueError:
        return False
    return wanted in extract_numbers(text)
