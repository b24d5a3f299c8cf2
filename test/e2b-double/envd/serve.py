"""E2B's envd as its clients see it, on a Unix socket: `serve.py SOCKET`. Ends with its standard input."""

import base64
import gzip
import hashlib
import json
import os
import queue
import select
import shutil
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import files
from accounts import UnknownUser, lookup, prepare_accounts
from connect import RpcError, end_of_stream, envelope, open_envelope
from processes import Processes

DEFAULT_KEEPALIVE = 90.0


class State:
    """What /init sets."""

    def __init__(self):
        self.token = None
        self.env = {}
        self.processes = Processes()


state = State()

UNARY = {
    "/process.Process/List": lambda request, _: state.processes.list(),
    "/process.Process/SendInput": lambda request, _: state.processes.send_input(
        request
    ),
    "/process.Process/SendSignal": lambda request, _: state.processes.send_signal(
        request
    ),
    "/process.Process/CloseStdin": lambda request, _: state.processes.close_stdin(
        request
    ),
    "/process.Process/Update": lambda request, _: state.processes.update(request),
    "/filesystem.Filesystem/Stat": files.stat_entry,
    "/filesystem.Filesystem/MakeDir": files.make_directory,
    "/filesystem.Filesystem/Move": files.move,
    "/filesystem.Filesystem/Remove": files.remove,
    "/filesystem.Filesystem/ListDir": files.list_directory,
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self):
        return "unix"

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urlsplit(self.path)
        query = {
            key: values[-1]
            for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        if url.path == "/health":
            return self.answer(204)
        if url.path == "/files":
            return self.guarded(lambda: self.read_file(query), query, "read")
        if url.path == "/envs":
            return self.guarded(lambda: self.answer(200, state.env))
        if url.path == "/metrics":
            return self.guarded(lambda: self.answer(200, metrics()))
        return self.fail(404, "not found")

    def do_POST(self):
        url = urlsplit(self.path)
        query = {
            key: values[-1]
            for key, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        if url.path == "/files":
            return self.guarded(lambda: self.write_files(query), query, "write")
        if url.path == "/init":
            return self.init()
        if url.path in UNARY:
            return self.guarded(lambda: self.unary(UNARY[url.path]))
        if url.path in ("/process.Process/Start", "/process.Process/Connect"):
            return self.guarded(lambda: self.stream(url.path.endswith("/Start")))
        self.body()
        if "." in url.path:
            return self.rpc_fail(RpcError("unimplemented", f"{url.path} is not there"))
        return self.fail(404, "not found")

    def init(self):
        given = json.loads(self.body() or b"{}")
        if (
            state.token is not None
            and self.headers.get("X-Access-Token") != state.token
        ):
            return self.fail(401, "unauthorized access")
        state.token = given.get("accessToken") or state.token
        state.env.update(given.get("envVars") or {})
        if given.get("reboot"):
            state.processes.reboot()
        return self.answer(204)

    def guarded(self, act, query=None, operation=None):
        token = self.headers.get("X-Access-Token")
        signed = (
            operation is not None
            and "signature" in query
            and signature_holds(query, operation)
        )
        if state.token is not None and token != state.token and not signed:
            self.body()
            return self.fail(
                401,
                "unauthorized access, please provide a valid access token or method signing if supported",
            )
        try:
            return act()
        except RpcError as error:
            return self.rpc_fail(error)
        except files.FileError as error:
            return self.fail(error.status, str(error))
        except UnknownUser as error:
            return self.fail(401, str(error))
        except OSError as error:
            return self.fail(500, str(error))

    def account(self):
        given = self.headers.get("Authorization", "")
        name = None
        if given.startswith("Basic "):
            name = base64.b64decode(given[6:]).decode().split(":")[0]
        try:
            return lookup(name)
        except UnknownUser as error:
            raise RpcError("unauthenticated", str(error)) from None

    def unary(self, act):
        request = json.loads(self.body() or b"{}")
        return self.answer(200, act(request, self.account()))

    def stream(self, starts):
        request = open_envelope(self.body())
        self.send_response(200)
        self.send_header("Content-Type", "application/connect+json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        timeout = (
            float(self.headers["Connect-Timeout-Ms"]) / 1000
            if self.headers.get("Connect-Timeout-Ms")
            else None
        )
        until = None if timeout is None else time.monotonic() + timeout
        try:
            if starts:
                process, events = state.processes.start(
                    request, self.account(), state.env, timeout
                )
            else:
                process = state.processes.find(request.get("process"), ended=True)
                events = process.subscribe()
        except RpcError as error:
            return self.end_chunks(end_of_stream(error))
        try:
            self.chunk(envelope({"event": {"start": {"pid": process.pid}}}))
            self.follow(events, until)
        except OSError:
            # Whoever listened has left; the command runs on.
            self.close_connection = True
        finally:
            process.unsubscribe(events)

    def follow(self, events, until):
        every = float(self.headers.get("Keepalive-Ping-Interval") or DEFAULT_KEEPALIVE)
        quiet_until = time.monotonic() + every
        while True:
            now = time.monotonic()
            if until is not None and now >= until:
                # The command was killed at the same moment.
                error = RpcError("deadline_exceeded", "context deadline exceeded")
                return self.end_chunks(end_of_stream(error))
            if now >= quiet_until:
                self.chunk(envelope({"event": {"keepalive": {}}}))
                quiet_until = now + every
            if self.left():
                raise ConnectionResetError
            wait = min(
                0.5, quiet_until - now, until - now if until is not None else 1.0
            )
            try:
                event = events.get(timeout=max(0.001, wait))
            except queue.Empty:
                continue
            self.chunk(envelope({"event": event}))
            quiet_until = time.monotonic() + every
            if "end" in event:
                return self.end_chunks(end_of_stream())

    def left(self):
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def read_file(self, query):
        file, size = files.open_to_read(
            query.get("path", ""), lookup(query.get("username"))
        )
        with file:
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(size))
            self.end_headers()
            left = size
            while left > 0:
                data = file.read(min(files.CHUNK, left))
                # A file that shrank meanwhile is filled up, as its length was promised.
                data = data or b"\0" * min(files.CHUNK, left)
                left -= len(data)
                self.wfile.write(data)

    def write_files(self, query):
        kind = self.headers.get("Content-Type", "")
        try:
            account = lookup(query.get("username"))
        except UnknownUser:
            self.body()
            raise
        chunks = self.chunks()
        if self.headers.get("Content-Encoding") == "gzip":
            chunks = [gzip.decompress(b"".join(chunks))]
        if kind.startswith("application/octet-stream"):
            if "path" not in query:
                raise files.FileError(
                    400, "path query parameter is required for raw body upload"
                )
            return self.answer(200, [files.write_file(query["path"], account, chunks)])
        if not kind.startswith("multipart/"):
            raise files.FileError(400, f"unsupported content type: {kind}")
        written = []
        for name, data in files.parts_of(b"".join(chunks), kind):
            written.append(files.write_file(query.get("path") or name, account, [data]))
        return self.answer(200, written)

    def chunks(self):
        """The request's body in pieces."""
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while True:
                length = int(self.rfile.readline().split(b";")[0], 16)
                if length > 0:
                    yield self.rfile.read(length)
                self.rfile.readline()
                if length == 0:
                    return
        left = int(self.headers.get("Content-Length") or 0)
        while left > 0:
            data = self.rfile.read(min(files.CHUNK, left))
            if not data:
                raise ConnectionResetError
            left -= len(data)
            yield data

    def body(self):
        return b"".join(self.chunks())

    def answer(self, status, value=None):
        data = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        if value is not None:
            self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status, message):
        self.answer(status, {"code": status, "message": message})

    def rpc_fail(self, error):
        self.answer(error.status, error.body())

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def end_chunks(self, data):
        self.chunk(data)
        self.wfile.write(b"0\r\n\r\n")


def signature_holds(query, operation):
    expiry = query.get("signature_expiration")
    if expiry is not None and int(expiry) < time.time():
        return False
    parts = [
        query.get("path", ""),
        operation,
        query.get("username", ""),
        state.token or "",
    ]
    text = ":".join(parts if expiry is None else [*parts, expiry])
    digest = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    )
    return query["signature"] == f"v1_{digest}"


def metrics():
    with open("/proc/meminfo", encoding="utf-8") as file:
        memory = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file}
    disk = shutil.disk_usage("/")
    return {
        "ts": int(time.time()),
        "cpu_count": os.cpu_count(),
        "cpu_used_pct": round(os.getloadavg()[0] * 100 / (os.cpu_count() or 1), 2),
        "mem_total": memory["MemTotal"],
        "mem_used": memory["MemTotal"] - memory["MemAvailable"],
        "mem_cache": memory["Cached"],
        "disk_total": disk.total,
        "disk_used": disk.used,
    }


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 512


def end_with_owner():
    # Nobody is to leave this sandbox behind: the worker of the double that holds the other end is gone.
    while os.read(0, 1024):
        pass
    os._exit(0)


def main():
    path = sys.argv[1]
    prepare_accounts()
    if os.path.exists(path):
        os.remove(path)
    server = Server(path, Handler)
    os.chmod(path, 0o666)
    threading.Thread(target=end_with_owner, daemon=True).start()
    server.serve_forever()


main()
