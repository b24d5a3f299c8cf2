"""The worker's standing hand inside a sandbox: one process of root's that runs commands, and outlives its line out.

    python3 -I -S hand.py connect NAME

joins its standard input and output to the hand of that name, starting it first when there is none: messages as they are
(frames.py) in, base64 lines out, since the line carries text only. Messages are numbered and kept until the other side
said that it has them, so that a line that broke and was opened again loses nothing and repeats nothing.

Python 3.8 or newer, standard library only.
"""

import base64
import collections
import os
import select
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import command
import frames
import linux
import verbs

DIRECTORY = "/run/rollpool-hand"
CHUNK = 64 * 1024
WINDOW = 256 * 1024
"""Bytes of one output that may be on their way to a reader."""
ACK_EVERY = 128 * 1024
"""Bytes received after which the worker is told so, if nothing else tells it."""
LINGER = 1.0
"""Seconds an output is read on once its command has ended: a child may hold it open for ever."""

IN = select.POLLIN
OUT = select.POLLOUT


class Output:
    """A command's stdout or stderr: passed on as far as its reader has room, or kept as a tail until the end."""

    def __init__(self, fd, tail):
        self.fd = fd
        self.tail = tail
        self.room = WINDOW
        self.count = 0
        self.kept = collections.deque()
        self.kept_bytes = 0

    def keep(self, data):
        self.kept.append(data)
        self.kept_bytes += len(data)
        while self.kept and self.kept_bytes - len(self.kept[0]) >= self.tail:
            self.kept_bytes -= len(self.kept.popleft())
        # Many tiny writes must not cost an object each.
        if len(self.kept) > 1024:
            self.kept = collections.deque([b"".join(self.kept)])

    def rest(self):
        whole = b"".join(self.kept)
        return whole[max(0, len(whole) - self.tail) :]


class Running:
    """A command and its streams."""

    def __init__(self, number, keeper, stdin, outputs, status_fd):
        self.number = number
        self.keeper = keeper
        self.stdin = stdin
        self.pending = collections.deque()
        self.eof = False
        self.outputs = outputs
        self.status_fd = status_fd
        self.status = None
        self.ended_at = None


class Hand:
    def __init__(self, listener, path):
        self._listener = listener
        self._path = path
        self._boot = base64.b16encode(os.urandom(8)).decode()
        self._commands = {}
        self._line = None
        self._decoder = None
        self._out = bytearray()
        self._kept = collections.deque()
        self._next = 1
        self._got = 0
        self._unsaid = 0

    def serve(self):
        while True:
            poll = select.poll()
            watched = {}

            def watch(fd, mask, handler, poll=poll, watched=watched):
                poll.register(fd, mask)
                watched[fd] = handler

            watch(self._listener.fileno(), IN, self._accept)
            if self._line is not None:
                watch(self._line.fileno(), IN | (OUT if self._out else 0), self._on_line)
            wait = None
            for running in list(self._commands.values()):
                left = self._advance(running)
                if left is None:
                    continue
                wait = left if wait is None else min(wait, left)
                if running.status is None:
                    watch(running.status_fd, IN, lambda mask, r=running: self._on_status(r))
                if running.stdin is not None and (running.pending or running.eof):
                    watch(running.stdin, OUT, lambda mask, r=running: self._on_stdin(r))
                for name, output in running.outputs.items():
                    if output.fd is not None and (output.tail is not None or output.room > 0):
                        watch(output.fd, IN, lambda mask, r=running, n=name: self._on_output(r, n))
            if self._line is not None and self._out:
                poll.modify(self._line.fileno(), IN | OUT)
            for fd, mask in poll.poll(None if wait is None or wait > 3600 else max(0, int(wait * 1000) + 1)):
                handler = watched.get(fd)
                if handler is not None:
                    handler(mask)
            self._reap()

    # The line

    def _accept(self, _mask):
        line, _ = self._listener.accept()
        self._drop_line()
        line.setblocking(False)
        self._line = line
        self._decoder = frames.Decoder()

    def _drop_line(self):
        if self._line is not None:
            self._line.close()
        self._line = None
        self._out.clear()

    def _on_line(self, mask):
        line = self._line
        if line is None:
            return
        try:
            if mask & OUT and self._out:
                sent = line.send(self._out[: 4 * CHUNK])
                del self._out[:sent]
            if mask & ~OUT:
                data = line.recv(4 * CHUNK)
                if not data:
                    self._drop_line()
                    return
                for header, body in self._decoder.feed(data):
                    self._on_message(header, body)
        except BlockingIOError:
            pass
        except (OSError, ValueError):
            self._drop_line()

    def _send(self, header, body=b""):
        """A message that must arrive: kept until the worker has it."""
        header = dict(header, n=self._next)
        self._next += 1
        self._kept.append((header["n"], header, body))
        self._write(header, body)

    def _write(self, header, body=b""):
        self._unsaid = 0
        if self._line is not None:
            self._out += frames.encode(dict(header, a=self._got), body)

    def _on_message(self, header, body):
        acknowledged = header.get("a", 0)
        while self._kept and self._kept[0][0] <= acknowledged:
            self._kept.popleft()
        number = header.get("n", 0)
        if number > 0:
            if number <= self._got:
                return
            if number != self._got + 1:
                raise ValueError("a message is missing")
            self._got = number
            self._unsaid += len(body) + 256
        op = header["op"]
        if op == "hello":
            self._write({"op": "hello", "boot": self._boot})
            for _, kept, kept_body in self._kept:
                self._write(kept, kept_body)
        elif op == "ping":
            self._write({"op": "pong"})
        elif op == "start":
            self._start(header)
        else:
            running = self._commands.get(header.get("id"))
            if running is not None:
                self._on_command(running, op, header, body)
        if self._unsaid >= ACK_EVERY:
            self._write({"op": "ack"})

    # Commands

    def _start(self, header):
        number = header["id"]
        account = command.Account(header["user"], header["uid"], header["home"])
        if "verb" in header:
            verb, args = verbs.ALL[header["verb"]], header["args"]

            def work():
                return verb(args)
        else:
            env = command.environment(account, header["path"], header["env"])
            work = (header["argv"], header["cwd"], env)
        pipes = [os.pipe() for _ in range(4)]
        (stdin_out, stdin), (out, out_in), (err, err_in), (status, status_in) = pipes
        ours = (stdin, out, err, status)
        # A keeper runs no program that would close them: another command's input must not stay open by it.
        foreign = [self._listener.fileno(), *ours]
        if self._line is not None:
            foreign.append(self._line.fileno())
        for running in self._commands.values():
            foreign += [running.stdin, running.status_fd, *(output.fd for output in running.outputs.values())]
        foreign = [fd for fd in foreign if fd is not None]
        try:
            keeper = command.start(account, work, (stdin_out, out_in, err_in), status_in, foreign)
        except OSError as error:
            for pair in pipes:
                for fd in pair:
                    os.close(fd)
            self._send({"op": "exit", "id": number, "code": command.NOT_STARTED, "out": 0, "err": 0, "why": str(error)})
            return
        for fd in (stdin_out, out_in, err_in, status_in):
            os.close(fd)
        for fd in ours:
            os.set_blocking(fd, False)
        tail = header.get("tail")
        outputs = {"out": Output(out, tail), "err": Output(err, tail)}
        self._commands[number] = Running(number, keeper, stdin, outputs, status)

    def _on_command(self, running, op, header, body):
        if op == "in":
            running.pending.append(body)
            if running.stdin is None:
                self._discard(running)
        elif op == "eof":
            running.eof = True
        elif op == "room":
            running.outputs[header["s"]].room += header["bytes"]
        elif op == "kill" and running.status is None:
            try:
                os.kill(running.keeper, signal.SIGTERM)
            except OSError:
                pass

    def _discard(self, running):
        """Input that nobody reads is taken all the same: it must not hold its writer back."""
        taken = sum(len(part) for part in running.pending)
        running.pending.clear()
        if taken > 0:
            self._send({"op": "room", "id": running.number, "bytes": taken})

    def _close_stdin(self, running):
        if running.stdin is not None:
            os.close(running.stdin)
            running.stdin = None

    def _on_stdin(self, running):
        taken = 0
        try:
            while running.pending:
                part = running.pending.popleft()
                try:
                    written = os.write(running.stdin, part)
                except BlockingIOError:
                    running.pending.appendleft(part)
                    break
                taken += written
                if written < len(part):
                    running.pending.appendleft(part[written:])
                    break
        except OSError:
            self._close_stdin(running)
            self._discard(running)
        if taken > 0:
            self._send({"op": "room", "id": running.number, "bytes": taken})
        if running.eof and not running.pending:
            self._close_stdin(running)

    def _on_output(self, running, name):
        output = running.outputs[name]
        try:
            most = CHUNK if output.tail is not None else min(CHUNK, output.room)
            data = os.read(output.fd, most)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            os.close(output.fd)
            output.fd = None
            return
        output.count += len(data)
        if output.tail is not None:
            output.keep(data)
            return
        output.room -= len(data)
        self._send({"op": "data", "id": running.number, "s": name}, data)

    def _on_status(self, running):
        try:
            data = os.read(running.status_fd, command.STATUS.size)
        except BlockingIOError:
            return
        # A keeper that was killed says nothing: by the kernel, for want of memory.
        running.status = command.STATUS.unpack(data)[0] if len(data) == command.STATUS.size else 137
        running.ended_at = time.monotonic()
        self._close_stdin(running)
        self._discard(running)

    def _advance(self, running):
        """Ends a command that ended and whose outputs are read: then None. Else the seconds until the next look."""
        if running.status is None:
            return 1e9
        for output in running.outputs.values():
            if output.fd is None:
                continue
            quiet = select.poll()
            quiet.register(output.fd, IN)
            if quiet.poll(0):
                return 1e9
            left = running.ended_at + LINGER - time.monotonic()
            if left > 0:
                return left
            os.close(output.fd)
            output.fd = None
        for name, output in running.outputs.items():
            if output.tail is not None:
                rest = output.rest()
                for at in range(0, len(rest), CHUNK):
                    self._send({"op": "data", "id": running.number, "s": name}, rest[at : at + CHUNK])
        os.close(running.status_fd)
        del self._commands[running.number]
        counts = {name: output.count for name, output in running.outputs.items()}
        self._send(dict(counts, op="exit", id=running.number, code=running.status))
        return None

    def _reap(self):
        try:
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        except ChildProcessError:
            pass


def _start_hand(path):
    """Starts the hand in a session of its own, and comes back when it listens."""
    os.makedirs(DIRECTORY, mode=0o700, exist_ok=True)
    os.chmod(DIRECTORY, 0o700)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(4)
    child = os.fork()
    if child != 0:
        os.waitpid(child, 0)
        listener.close()
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.chdir("/")
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    linux.adopt_orphans()
    linux.spare_from_oom(-900)
    try:
        Hand(listener, path).serve()
    finally:
        os._exit(1)


def connect(name):
    path = f"{DIRECTORY}/{name}"
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(path)
    except OSError:
        if os.path.lexists(path):
            # There was one, and it is dead: what it knew is lost, and a new one must not be taken for it.
            sys.exit(5)
        _start_hand(path)
        line.connect(path)
    poll = select.poll()
    poll.register(line, IN)
    poll.register(0, IN)
    while True:
        for fd, _ in poll.poll():
            if fd == 0:
                data = os.read(0, CHUNK)
                if data:
                    line.sendall(data)
                else:
                    poll.unregister(0)
            else:
                data = line.recv(CHUNK)
                if not data:
                    return
                _write_all(base64.b64encode(data) + b"\n")


def _write_all(data):
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    connect(sys.argv[2])
