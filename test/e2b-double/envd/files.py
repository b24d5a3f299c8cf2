"""The filesystem service and the two ways of /files."""

import errno
import grp
import os
import pwd
import re
import shutil
import stat
from datetime import UTC, datetime

from accounts import resolve
from connect import RpcError

CHUNK = 1 << 16


class FileError(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def name_of(lookup, number):
    try:
        return lookup(number)[0]
    except KeyError:
        return str(number)


def entry_of(path):
    try:
        found = os.lstat(path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise RpcError(
                "not_found", f"file not found: stat {path}: no such file or directory"
            ) from None
        raise RpcError("internal", str(error)) from None
    kind = "FILE_TYPE_UNSPECIFIED"
    if stat.S_ISLNK(found.st_mode):
        kind = "FILE_TYPE_SYMLINK"
    elif stat.S_ISDIR(found.st_mode):
        kind = "FILE_TYPE_DIRECTORY"
    elif stat.S_ISREG(found.st_mode):
        kind = "FILE_TYPE_FILE"
    entry = {
        "name": os.path.basename(path) or "/",
        "type": kind,
        "path": path,
        "size": str(found.st_size),
        "mode": stat.S_IMODE(found.st_mode),
        "permissions": stat.filemode(found.st_mode),
        "owner": name_of(pwd.getpwuid, found.st_uid),
        "group": name_of(grp.getgrgid, found.st_gid),
        "modifiedTime": datetime.fromtimestamp(found.st_mtime, UTC)
        .isoformat()
        .replace("+00:00", "Z"),
    }
    if kind == "FILE_TYPE_SYMLINK":
        entry["symlinkTarget"] = os.readlink(path)
    return entry


def ensure_directories(path, account):
    if os.path.isdir(path):
        return
    if os.path.lexists(path):
        raise NotADirectoryError(errno.ENOTDIR, "path is a file", path)
    ensure_directories(os.path.dirname(path), account)
    os.mkdir(path, 0o755)
    os.chown(path, account.pw_uid, account.pw_gid)


def stat_entry(request, account):
    return {"entry": entry_of(resolve(request.get("path", ""), account))}


def make_directory(request, account):
    path = resolve(request.get("path", ""), account)
    if os.path.isdir(path):
        raise RpcError("already_exists", f"directory already exists: {path}")
    try:
        ensure_directories(path, account)
    except NotADirectoryError as error:
        raise RpcError("invalid_argument", str(error)) from None
    return {"entry": entry_of(path)}


def move(request, account):
    source = resolve(request.get("source", ""), account)
    destination = resolve(request.get("destination", ""), account)
    entry_of(source)
    ensure_directories(os.path.dirname(destination), account)
    os.rename(source, destination)
    return {"entry": entry_of(destination)}


def remove(request, account):
    path = resolve(request.get("path", ""), account)
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.remove(path)
    return {}


def list_directory(request, account):
    top = resolve(request.get("path", ""), account)
    depth = request.get("depth", 0) or 1
    entry_of(top)
    if not os.path.isdir(top):
        raise RpcError("invalid_argument", f"path is not a directory: {top}")
    entries = []

    def walk(directory, left):
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            entry = entry_of(path)
            entries.append(entry)
            if left > 1 and entry["type"] == "FILE_TYPE_DIRECTORY":
                walk(path, left - 1)

    walk(os.path.realpath(top), depth)
    return {"entries": entries}


def open_to_read(path, account):
    path = resolve(path, account)
    try:
        found = os.stat(path)
    except OSError:
        raise FileError(404, f"path '{path}' does not exist") from None
    if not stat.S_ISREG(found.st_mode):
        raise FileError(400, f"path '{path}' is not a regular file")
    return open(path, "rb"), found.st_size


def write_file(path, account, chunks):
    path = resolve(path, account)
    try:
        ensure_directories(os.path.dirname(path), account)
        if os.path.isdir(path):
            raise FileError(400, f"path is a directory: {path}")
        with open(path, "wb") as file:
            os.chown(path, account.pw_uid, account.pw_gid)
            file.writelines(chunks)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise FileError(507, "not enough disk space available") from None
        raise FileError(500, f"error writing file: {error}") from None
    return {"name": os.path.basename(path), "path": path, "type": "file"}


def parts_of(body, content_type):
    """(file name, bytes) of each part `file` of a multipart body."""
    boundary = re.search(r'boundary="?([^";]+)"?', content_type)
    if boundary is None:
        raise FileError(400, "multipart body without a boundary")
    for part in body.split(b"--" + boundary.group(1).encode())[1:-1]:
        head, _, data = part[2:].partition(b"\r\n\r\n")
        text = head.decode()
        if not re.search(r'\bname="?file"?', text):
            continue
        name = re.search(r'filename="((?:[^"\\]|\\.)*)"', text)
        if name is None:
            raise FileError(400, "a part has no file name")
        plain = name.group(1)
        for code, char in (("%22", '"'), ("%0D", "\r"), ("%0A", "\n")):
            plain = plain.replace(code, char)
        yield plain, data[:-2]
