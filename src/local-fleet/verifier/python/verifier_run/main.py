"""One request from standard input, one answer as JSON to a descriptor of its own: standard output is the verifier's."""

from __future__ import annotations

import binascii
import json
import os
import sqlite3
import sys

import fleet

from .answer import described, json_safe
from .arguments import read_arguments
from .confine import drop_privileges, limit
from .execute import call, load, read_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_ANSWER_BYTES = 1 << 20


class _Run:
    """Remembers the source, which a failure is told with."""

    source = ""

    def result(self, request: dict[str, Any]) -> object:
        self.source = read_source(request["bundle"])
        arguments = read_arguments(binascii.a2b_base64(request["args"]))
        databases = {name: fleet.DatabaseSnapshot(request[name], name=name) for name in ("seed", "current")}
        function = load(self.source, request["function_name"])
        return json_safe(call(self.source, function, databases, request["env_variables"], arguments))


def main(answer_descriptor: int) -> None:
    request = json.load(sys.stdin)
    sys.stdin.close()
    # What a policy wrote may hold half a surrogate pair, and a verifier that prints it must still grade.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    # The library for what a verifier imports later; what lies beside this file is imported by now.
    library = os.path.dirname(os.__file__)
    drop_privileges((library, os.path.dirname(sqlite3.__file__), *(request[k] for k in ("bundle", "seed", "current"))))
    limit(request["timeout_seconds"], request["memory_bytes"])
    # Modules of the bundle come after the standard library, packages of the machine after both.
    sys.path += [request["bundle"], *request["packages"]]
    run = _Run()
    try:
        answer = json.dumps({"success": True, "result": run.result(request), "error": None})
        if len(answer) > _ANSWER_BYTES:
            raise ValueError(f"the result has more than {_ANSWER_BYTES} bytes")
    except BaseException as error:
        # Also what is no Exception: a verifier that calls exit() has not graded anything.
        answer = json.dumps({"success": False, "result": None, "error": described(error, run.source, _OWN)})
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        pass
    with open(answer_descriptor, "w", encoding="utf-8") as out:
        out.write(answer)
