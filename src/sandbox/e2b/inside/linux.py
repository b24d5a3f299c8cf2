"""What Python's standard library has no name for."""

import ctypes
import os

_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option, value):
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def adopt_orphans():
    """Descendants whose parent dies become children of this process and not of the first one."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def gain_nothing():
    """No program started from here on gains a privilege: sudo and su have no power."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def spare_from_oom(score):
    """How soon the kernel kills this process for want of memory: -1000 (never) to 1000. Less needs a capability."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(score))
    except OSError:
        pass


def processes():
    """(pid, parent, state, threads, uids) of every process."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        fields = {}
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                for line in file:
                    key, _, value = line.partition(b":")
                    fields[key] = value.split()
        except OSError:
            continue
        try:
            yield (
                int(name),
                int(fields[b"PPid"][0]),
                fields[b"State"][0].decode(),
                int(fields[b"Threads"][0]),
                {int(uid) for uid in fields[b"Uid"]},
            )
        except (KeyError, IndexError, ValueError):
            continue
