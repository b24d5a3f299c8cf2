"""What the process may use, before a line of the verifier runs."""

from __future__ import annotations

import os
import resource
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# Files it writes, bytes: enough for notes in its own directory, not for filling a disk.
_FILE_BYTES = 1 << 20
_OPEN_FILES = 64


def _limit(kind: str, soft: int, hard: int | None = None) -> None:
    number = getattr(resource, kind, None)
    if number is None:
        return
    try:
        resource.setrlimit(number, (soft, soft if hard is None else hard))
    except (OSError, ValueError):
        # Not every system enforces every limit (macOS has no address space limit); the others hold.
        pass


def limit(timeout_seconds: float, memory_bytes: int) -> None:
    """The caller kills the process group at the wall time; this bounds it also when the caller has died."""
    seconds = int(timeout_seconds) + 1
    signal.alarm(seconds + 10)
    _limit("RLIMIT_CPU", seconds, seconds + 1)
    _limit("RLIMIT_AS", memory_bytes)
    _limit("RLIMIT_FSIZE", _FILE_BYTES)
    _limit("RLIMIT_NOFILE", _OPEN_FILES)
    _limit("RLIMIT_CORE", 0)
    # No child and no thread: nothing outlives the kill of the group.
    _limit("RLIMIT_NPROC", 0)


def _readable(paths: Iterable[str]) -> bool:
    try:
        for path in paths:
            if os.path.isdir(path):
                os.listdir(path)
            else:
                with open(path, "rb"):
                    pass
    except OSError:
        return False
    return True


def drop_privileges(needed: Iterable[str]) -> bool:
    """As root: becomes `nobody` when all it needs stays readable. True when it did."""
    if os.geteuid() != 0:
        return False
    import pwd

    try:
        nobody: Any = pwd.getpwnam("nobody")
        os.setegid(nobody.pw_gid)
        os.seteuid(nobody.pw_uid)
    except (KeyError, OSError):
        os.seteuid(0)
        os.setegid(0)
        return False
    enough = _readable(needed)
    os.seteuid(0)
    os.setegid(0)
    if not enough:
        return False
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
    return True
