"""What root does inside for the worker, each in a process of its own. One that fails raises, or gives a code but 0."""

import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time

import linux

ABSENT = 3
"""Exit code of `read` for what is no regular file, or larger than asked."""


def _known(path, number):
    try:
        with open(path) as file:
            return any(line.split(":")[2:3] == [str(number)] for line in file)
    except FileNotFoundError:
        return False


def _append(path, line):
    with open(path, "a") as file:
        file.write(line + "\n")


def _own_directory(path, uid, mode):
    os.makedirs(path, exist_ok=True)
    os.chown(path, uid, uid)
    os.chmod(path, mode)


def prepare(args):
    """Users by their lines in passwd and group, homes, the working directory. Ends what ran before a snapshot."""
    _end_other_hands(args["name"])
    for account in args["accounts"]:
        uid = account["uid"]
        _kill_user(uid, time.monotonic() + 10)
        if not _known("/etc/passwd", uid):
            _append("/etc/passwd", f"{account['name']}:x:{uid}:{uid}::{account['home']}:/bin/bash")
        if not _known("/etc/group", uid):
            _append("/etc/group", f"{account['name']}:x:{uid}:")
        _own_directory(account["home"], uid, 0o700)
    os.makedirs("/tmp", exist_ok=True)
    os.chmod("/tmp", 0o1777)
    workdir, agent = args["workdir"], args["accounts"][0]["uid"]
    existed = os.path.isdir(workdir)
    os.makedirs(workdir, exist_ok=True)
    if not existed:
        os.chown(workdir, agent, agent)
    elif os.stat(workdir).st_uid != agent:
        subprocess.run(["chown", "-R", "-P", "-h", f"{agent}:{agent}", workdir + "/"], check=True)
    sys.stdout.write(json.dumps({"workdir": os.path.realpath(workdir), "path": _path()}))
    return 0


def _end_other_hands(name):
    """A sandbox made from a snapshot has the memory of the one before, its hand and what that ran included."""
    for pid, _, _, _, uids in linux.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if uids == {0} and any(word.endswith(b"/hand.py") for word in words) and name.encode() not in words:
                os.kill(pid, signal.SIGKILL)
        except OSError:
            continue


def _path():
    """The template's own PATH, which a login shell's start-up files may have replaced, and after it what those add."""
    parts = []
    for source in ("ROLLPOOL_TEMPLATE_PATH", "PATH"):
        for part in os.environ.get(source, "").split(":"):
            if part and part not in parts:
                parts.append(part)
    return ":".join(parts)


def own(args):
    """Hands the working directory over. What stands in its place is replaced; its owner may always enter it."""
    workdir, uid = args["workdir"], args["uid"]
    if os.path.islink(workdir) or not os.path.isdir(workdir):
        if os.path.lexists(workdir):
            os.unlink(workdir)
        os.mkdir(workdir)
    subprocess.run(["chown", "-R", "-P", "-h", f"{uid}:{uid}", workdir], check=True)
    os.chmod(workdir, os.stat(workdir).st_mode | 0o700)
    return 0


def _walk(path):
    """How far a path consists of directories, and what is missing. A link is followed when root made it, else never."""
    walked, rest = "/", [part for part in path.split("/") if part]
    while rest:
        at = os.path.join(walked, rest[0])
        try:
            found = os.lstat(at)
        except OSError:
            break
        if stat.S_ISLNK(found.st_mode):
            target = os.path.realpath(at)
            if found.st_uid != 0 or not os.path.isdir(target):
                break
            walked = target
        elif stat.S_ISDIR(found.st_mode):
            walked = at
        else:
            break
        rest.pop(0)
    return walked, rest


def _clear(path, directory):
    """Removes what stands at a path and is not what is to be there."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        if not directory:
            shutil.rmtree(path)
    else:
        os.unlink(path)


def _make_directory(path, uid):
    _clear(path, True)
    try:
        os.mkdir(path, 0o755)
    except FileExistsError:
        os.chmod(path, 0o755)
    os.chown(path, uid, uid)


def unpack(args):
    """Writes the files on stdin: [u32 header length][JSON: path, size][bytes] each. Follows no link below the base."""
    uid, mode, source = args["uid"], args["mode"], sys.stdin.buffer
    base, missing = _walk(args["base"])
    made = set()

    def enter(parts):
        at = base
        for part in parts:
            at = os.path.join(at, part)
            if at not in made:
                _make_directory(at, uid)
                made.add(at)
        return at

    while True:
        head = source.read(4)
        if len(head) < 4:
            return 0
        header = json.loads(source.read(struct.unpack(">I", head)[0]))
        parts = [part for part in header["path"].split("/") if part not in ("", ".")]
        path = os.path.join(enter(missing + parts[:-1]), parts[-1])
        _clear(path, False)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(fd, "wb") as file:
            left = header["size"]
            while left > 0:
                chunk = source.read(min(left, 1 << 16))
                if not chunk:
                    raise EOFError("the files broke off")
                file.write(chunk)
                left -= len(chunk)
            os.fchown(fd, uid, uid)
            os.fchmod(fd, mode)


def read(args):
    directory, _, name = args["path"].rpartition("/")
    walked, missing = _walk(directory)
    if missing or not name:
        return ABSENT
    try:
        fd = os.open(os.path.join(walked, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ABSENT
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_size > args["max"]:
        return ABSENT
    with os.fdopen(fd, "rb") as file:
        left = args["max"]
        while left > 0:
            chunk = file.read(min(left, 1 << 16))
            if not chunk:
                break
            sys.stdout.buffer.write(chunk)
            left -= len(chunk)
    return 0


def _of_user(uid):
    return [
        pid
        for pid, _, state, threads, uids in linux.processes()
        if uid in uids and not (state in "ZX" and threads <= 1)
    ]


def _kill_user(uid, deadline):
    """Kills by the kernel's own list, which a process that forks faster than it is looked for cannot escape."""
    clean = 0
    while clean < 2:
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
                os.kill(-1, signal.SIGKILL)
            except OSError:
                pass
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        left = _of_user(uid)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        clean = 0 if left else clean + 1
        if clean < 2:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.002)
    return True


def kill_user(args):
    return 0 if _kill_user(args["uid"], time.monotonic() + args["ms"] / 1000) else 1


def oom_kills():
    """Processes the kernel ended for want of memory, in this container or, where it is a machine, in all of it."""
    for path in ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat"):
        try:
            with open(path) as file:
                for line in file:
                    key, _, value = line.partition(" ")
                    if key == "oom_kill":
                        return int(value)
        except (OSError, ValueError):
            continue
    return 0


def look(args):
    """Kills for want of memory, and bytes that the working directory's disk has left."""
    try:
        disk = os.statvfs(args["workdir"])
        free = disk.f_bavail * disk.f_frsize
    except OSError:
        free = None
    sys.stdout.write(json.dumps({"oom": oom_kills(), "free": free}))
    return 0


ALL = {verb.__name__: verb for verb in (prepare, own, unpack, read, kill_user, look)}
