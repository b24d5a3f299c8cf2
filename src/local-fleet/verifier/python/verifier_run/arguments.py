"""Reading the pickled arguments of a call."""

from __future__ import annotations

import io
import pickle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class _Plain(pickle.Unpickler):
    """Containers of primitives only: a global in a pickle is code of the sender's choice."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the arguments may not hold {module_name}.{global_name}")


def read_arguments(data: bytes) -> tuple[list[Any], dict[str, Any], str]:
    """The positional arguments after `env`, the named ones, and the instance's id.

    The wire's form: `{"args": (None, ..., {"env": id}), "kwargs": {...}}`; the None stands where `env` goes.
    """
    call = _Plain(io.BytesIO(data)).load()
    if not isinstance(call, dict):
        raise ValueError("the arguments are not a dict of 'args' and 'kwargs'")
    positional, named = list(call.get("args") or ()), dict(call.get("kwargs") or {})
    instance = ""
    if positional and isinstance(positional[-1], dict) and set(positional[-1]) == {"env"}:
        instance = str(positional.pop()["env"])
    if positional and positional[0] is None:
        del positional[0]
    return positional, named, instance
