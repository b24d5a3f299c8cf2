"""Loading a verifier's source and calling its function."""

from __future__ import annotations

import json
import re
import string
import sys
import zipimport

import fleet
from fleet.verifiers import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import CodeType
    from typing import Any

_FILE = "verifier.py"
_SOURCE_BYTES = 4 << 20


def namespace() -> dict[str, Any]:
    """The names a verifier uses without importing them, as the vendor's own runner gives them."""
    return {
        "__name__": "verifier",
        "__file__": _FILE,
        "TASK_SUCCESSFUL_SCORE": fleet.TASK_SUCCESSFUL_SCORE,
        "TASK_FAILED_SCORE": fleet.TASK_FAILED_SCORE,
        "normalized_contains": text.normalized_contains,
        "normalized_string_comparison": text.normalized_string_comparison,
        "extract_numbers": text.extract_numbers,
        "contains_number": text.contains_number,
        "DatabaseSnapshot": fleet.DatabaseSnapshot,
        "IgnoreConfig": fleet.IgnoreConfig,
        "SnapshotDiff": fleet.SnapshotDiff,
        "Environment": fleet.Environment,
        "AsyncEnvironment": fleet.AsyncEnvironment,
        "SyncEnv": fleet.SyncEnv,
        "AsyncEnv": fleet.AsyncEnv,
        "verifier": fleet.verifier,
        "json": json,
        "re": re,
        "string": string,
    }


def read_source(bundle: str) -> str:
    """`verifier.py` of the ZIP; its other modules can be imported by the verifier. Memory is bounded by the process."""
    try:
        archive = zipimport.zipimporter(bundle)
        data: bytes = archive.get_data(f"{archive.archive}/{_FILE}")
    except (zipimport.ZipImportError, OSError) as error:
        raise ValueError(f"the bundle is not a ZIP with {_FILE}: {error}") from None
    if len(data) > _SOURCE_BYTES:
        raise ValueError(f"{_FILE} has more than {_SOURCE_BYTES} bytes")
    return data.decode("utf-8-sig")


def load(source: str, function_name: str) -> Callable[..., Any]:
    code: CodeType = compile(source, _FILE, "exec")
    module = type(sys)("verifier")
    names = module.__dict__
    names.update(namespace())
    # Dataclasses and pickling look their module up by its name.
    sys.modules["verifier"] = module
    exec(code, names)
    function: Any = names.get(function_name)
    if not callable(function):
        raise NameError(f"{_FILE} defines no function {function_name!r}")
    return function  # type: ignore[no-any-return]


_COROUTINE = 0x80


def call(
    source: str,
    function: Callable[..., Any],
    databases: Mapping[str, fleet.DatabaseSnapshot],
    env_variables: dict[str, Any],
    arguments: tuple[list[Any], dict[str, Any], str],
) -> Any:
    positional, named, instance = arguments
    env: Any = fleet.Environment(databases, instance, env_variables)
    code = getattr(function, "__code__", None)
    if code is None or not code.co_flags & _COROUTINE:
        return function(env, *positional, **named)
    import asyncio

    # An async verifier is written for the awaitable client when it awaits anything at all.
    if re.search(r"\bawait\b", source):
        env = fleet.AsyncEnvironment(env)
    return asyncio.run(function(env, *positional, **named))
