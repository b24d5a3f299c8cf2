"""One command: a keeper of root's, and below it the command with everything it starts.

The keeper adopts every orphan below it, so that whatever the command did (sessions, double forks, an empty
environment) its tree is found by parentage alone; and no user but root can signal the keeper. SIGTERM makes it kill the
whole tree. It leaves when the command has ended; what the command left running goes on.
"""

import os
import resource
import signal
import struct
import sys
import time

import linux

STATUS = struct.Struct(">i")
NOT_STARTED = -1
"""Status of a command that could not be started; why stands in its stderr."""

PROCESSES = 1024
"""Processes and threads of a user that is not root."""


class Account:
    """A user a command runs as."""

    def __init__(self, name, uid, home):
        self.name = name
        self.uid = uid
        self.home = home


def environment(account, path, given):
    env = {
        "PATH": path,
        "HOME": account.home,
        "USER": account.name,
        "LOGNAME": account.name,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
    }
    env.update(given)
    return env


def _become(account):
    linux.spare_from_oom(0 if account.uid == 0 else 300)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if account.uid != 0:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = PROCESSES if hard == resource.RLIM_INFINITY else min(PROCESSES, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    os.setgroups([])
    os.setresgid(account.uid, account.uid, account.uid)
    os.setresuid(account.uid, account.uid, account.uid)
    if account.uid != 0:
        linux.gain_nothing()


def _reset_signals():
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _run(account, work, fds):
    """In the command's own process; gives its exit code where it is a function of ours."""
    _reset_signals()
    os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
    os.umask(0o022)
    if callable(work):
        return work()
    argv, cwd, env = work
    try:
        _become(account)
        os.chdir(cwd)
        os.execve("/bin/bash", argv, env)
    except OSError as error:
        os.write(2, str(error).encode())
        return None


def _descendants(root):
    children = {}
    for pid, parent, state, threads, _ in linux.processes():
        if state in "ZX" and threads <= 1:
            continue
        children.setdefault(parent, []).append(pid)
    found = []
    queue = list(children.get(root, ()))
    while queue:
        pid = queue.pop()
        found.append(pid)
        queue.extend(children.get(pid, ()))
    return found


def _keep(child, status_fd):
    """The keeper's life. Never returns."""
    status = None
    killing = False
    wanted = {signal.SIGCHLD, signal.SIGTERM}
    while True:
        try:
            while True:
                pid, how = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    break
                if pid == child:
                    status = os.WEXITSTATUS(how) if os.WIFEXITED(how) else 128 + os.WTERMSIG(how)
        except ChildProcessError:
            pass
        if killing:
            victims = _descendants(os.getpid())
            for pid in victims:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            if not victims and status is not None:
                break
            time.sleep(0.002)
            continue
        if status is not None:
            break
        killing = signal.sigwait(wanted) == signal.SIGTERM
    os.write(status_fd, STATUS.pack(status))
    os._exit(0)


def start(account, work, fds, status_fd, foreign):
    """Starts a command with `fds` as its streams; gives its keeper's pid. `foreign`: what the hand alone holds open."""
    keeper = os.fork()
    if keeper != 0:
        return keeper
    try:
        for fd in foreign:
            os.close(fd)
        linux.adopt_orphans()
        signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGCHLD, signal.SIGTERM})
        os.setsid()
        started, said = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(started)
                code = _run(account, work, fds)
                if code is None:
                    os.write(said, b"x")
                    code = 126
            except Exception as error:
                os.write(2, f"{type(error).__name__}: {error}".encode())
            finally:
                sys.stdout.flush()
                os._exit(code)
        os.close(said)
        for fd in fds:
            os.close(fd)
        # Ends when the command runs (closed by exec) or has failed to; a function of ours holds it while it works.
        if not callable(work) and os.read(started, 1) == b"x":
            os.waitpid(child, 0)
            os.write(status_fd, STATUS.pack(NOT_STARTED))
            os._exit(0)
        os.close(started)
        _keep(child, status_fd)
    finally:
        os._exit(1)
