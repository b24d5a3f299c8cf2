"""`env`, the first argument of every verifier."""

from __future__ import annotations

from .verifiers.db import DatabaseSnapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn


class Instance:
    """The instance's resources: its two databases."""

    def __init__(self, databases: Mapping[str, DatabaseSnapshot]):
        self._databases = databases

    def load(self) -> None:
        """Everything is there already."""

    def db(self, name: str = "current") -> DatabaseSnapshot:
        if name not in self._databases:
            raise KeyError(f"Unknown database '{name}'. Available: {list(self._databases)}")
        return self._databases[name]

    def resources(self) -> list[DatabaseSnapshot]:
        return list(self._databases.values())

    def state(self, uri: str) -> DatabaseSnapshot:
        """By its address, such as `sqlite://current`."""
        return self.db(uri.removeprefix("sqlite://"))


class Environment:
    """A finished episode's state. It can only be read."""

    def __init__(self, databases: Mapping[str, DatabaseSnapshot], instance_id: str, env_variables: dict[str, Any]):
        self.instance = Instance(databases)
        self.instance_id = instance_id
        self.env_variables = env_variables

    def db(self, name: str = "current") -> DatabaseSnapshot:
        return self.instance.db(name)

    def resources(self) -> list[DatabaseSnapshot]:
        return self.instance.resources()

    def state(self, uri: str) -> DatabaseSnapshot:
        return self.instance.state(uri)

    def app(self, _name: str) -> Instance:
        """A local environment is one application."""
        return self.instance

    @property
    def judge(self) -> NoReturn:
        raise NotImplementedError("a local Fleet environment has no judge model")

    def api(self, _name: str = "api") -> NoReturn:
        raise NotImplementedError("a verifier of a local Fleet environment reads its databases, not its API")

    def browser(self, _name: str = "cdp") -> NoReturn:
        raise NotImplementedError("a local Fleet environment has no browser")

    def fs(self) -> NoReturn:
        raise NotImplementedError("a local Fleet environment has no file system to compare")


SyncEnv = Environment


_ASKS = frozenset(
    "load query exec describe resources first all count assert_exists assert_none assert_eq "
    "expect expect_only expect_only_v1 expect_only_v2 expect_exactly tables "
    "expect_row expect_rows expect_absent_row".split()
)


class AsyncEnvironment:
    """The same for a verifier that awaits: what asks a database gives an awaitable, what builds a query does not."""

    def __init__(self, target: Any):
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return _awaitable_view(found)
        if name not in _ASKS:
            return lambda *args, **kwargs: _awaitable_view(found(*_plain(args), **kwargs))

        async def ask(*args: Any, **kwargs: Any) -> Any:
            return _awaitable_view(found(*_plain(args), **kwargs))

        return ask


AsyncEnv = AsyncEnvironment


def _plain(args: tuple[Any, ...]) -> list[Any]:
    return [arg._target if isinstance(arg, AsyncEnvironment) else arg for arg in args]


def _awaitable_view(value: Any) -> Any:
    ours = type(value).__module__.partition(".")[0] == __name__.partition(".")[0]
    return AsyncEnvironment(value) if ours and not isinstance(value, int) else value
