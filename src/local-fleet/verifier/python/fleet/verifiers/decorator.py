"""`@verifier(...)`: here the function is called by its name, so the decorator leaves it as it is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def verifier(*positional: Any, **_options: Any) -> Callable[..., Any]:
    """With or without arguments."""
    if len(positional) == 1 and callable(positional[0]):
        function: Callable[..., Any] = positional[0]
        return function
    return lambda function: function
