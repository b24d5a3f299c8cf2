"""A verifier's result as JSON that every reader accepts."""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEPTH = 50


def json_safe(value: Any, depth: int = 0) -> Any:
    """JSON has no NaN and no infinity, and dropping one to null would read as success: they become the strings `NaN`,
    `Infinity` and `-Infinity`, which Python's float() reads back. An object with a `score` becomes a dict with it.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return float(value)
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if depth > _DEPTH:
        raise ValueError("the result is nested too deeply")
    if isinstance(value, dict):
        return {str(key): json_safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return [json_safe(item, depth + 1) for item in sorted(value, key=repr)]
    if hasattr(value, "score"):
        fields = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        return json_safe({**fields, "score": value.score}, depth + 1)
    if hasattr(value, "__float__"):
        return json_safe(float(value), depth + 1)
    return str(value)


def described(error: BaseException, source: str, own_directory: str) -> dict[str, str]:
    """Type, message and traceback, with the verifier's own lines and without the frames of the machinery around it."""
    import linecache
    import traceback

    linecache.cache["verifier.py"] = (len(source), None, source.splitlines(keepends=True), "verifier.py")

    kind = type(error)
    frames = traceback.extract_tb(error.__traceback__)
    inner = [frame for frame in frames if not frame.filename.startswith(own_directory)]
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(inner[-40:])]
    lines += traceback.format_exception_only(kind, error)
    return {
        "type": kind.__name__,
        "message": _text(error)[:20_000],
        "traceback": "".join(lines)[-40_000:],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "an error whose text cannot be read"
