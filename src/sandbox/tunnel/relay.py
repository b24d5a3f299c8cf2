"""Carries byte streams between a sandbox and its worker.

One file, Python 3.8 or newer, standard library only.

forward: connects every connection to a TCP port of 127.0.0.1 with a Unix socket in the same sandbox.

    python3 -I -S relay.py forward [--detach] PORT=SOCKET [PORT=SOCKET ...]

  Port 0 takes a free one. Prints one line `listening PORT ...` with the ports in order once all listen; with
  `--detach` it then goes on in the background, in a session of its own, and the command itself exits with 0.
  A port that is taken is exit code 4 with one line on stderr. The socket need not be there when it starts:
  a connection made while nobody listens at it is closed.
"""

import collections
import os
import select
import signal
import socket
import sys

CHUNK = 64 * 1024
"""Bytes read from a socket at once."""
FORWARD_BUFFER = 256 * 1024
"""Bytes a forwarded connection may hold for a side that does not read."""
MAX_CONNECTIONS = 256
"""Connections at once; more wait in the kernel's queue."""
EXIT_CANNOT_LISTEN = 4

IN = select.POLLIN
OUT = select.POLLOUT
HUNG_UP = select.POLLHUP
BROKEN = select.POLLERR | select.POLLNVAL


class Loop:
    """Waits for file descriptors and calls who watches them. A descriptor that is watched for nothing is not looked at."""

    def __init__(self):
        self._poll = select.poll()
        self._watchers = {}
        self._masks = {}
        self._due = collections.deque()

    def watch(self, fd, mask, watcher):
        if self._masks.get(fd, 0) == mask:
            self._watchers[fd] = watcher
            return
        if mask == 0:
            self.forget(fd)
            return
        self._poll.register(fd, mask)
        self._watchers[fd] = watcher
        self._masks[fd] = mask

    def forget(self, fd):
        if self._masks.pop(fd, 0) != 0:
            self._poll.unregister(fd)
            self._watchers.pop(fd, None)

    def soon(self, call):
        """Calls after the events at hand."""
        self._due.append(call)

    def turn(self, timeout_ms):
        for fd, events in self._poll.poll(0 if self._due else timeout_ms):
            watcher = self._watchers.get(fd)
            if watcher is not None:
                watcher(events)
        for _ in range(len(self._due)):
            self._due.popleft()()


class Connection:
    """One socket: reads while it is wanted, writes what it is given, and tells its owner.

    The owner has got(data), got_end(closed), wrote(count) and broke(). `closed` in got_end: the other side has closed
    both directions, so that nothing written to it can arrive.
    """

    def __init__(self, loop, sock, owner):
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._fd = sock.fileno()
        self._owner = owner
        self._out = collections.deque()
        self._limit = 0
        self._ending = False
        self._end_sent = False
        self.read_ended = False
        self.closed = False
        self.waiting = 0
        """Bytes not yet written."""

    @property
    def write_ended(self):
        return self._end_sent

    def read_up_to(self, limit):
        """Reads at most `limit` bytes at once from now on; 0 pauses."""
        self._limit = limit
        self._update()

    def write(self, data):
        if self.closed or self._ending:
            return
        if not self._out:
            sent = self._send(data)
            if sent is None:
                return
            if sent:
                self._loop.soon(lambda: self._owner.wrote(sent))
            if sent == len(data):
                return
            data = memoryview(data)[sent:]
        self._out.append(data)
        self.waiting += len(data)
        self._update()

    def end(self):
        """Closes the writing direction once all is written."""
        if self._ending or self.closed:
            return
        self._ending = True
        self._finish()

    def close(self):
        if self.closed:
            return
        self.closed = True
        self._loop.forget(self._fd)
        self._out.clear()
        self.waiting = 0
        self._sock.close()

    def _update(self):
        if self.closed:
            return
        reading = IN if self._limit > 0 and not self.read_ended else 0
        self._loop.watch(self._fd, reading | (OUT if self._out else 0), self._ready)

    def _send(self, data):
        try:
            return self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self._break()
            return None

    def _break(self):
        if not self.closed:
            self.close()
            self._loop.soon(self._owner.broke)

    def _finish(self):
        if self._ending and not self._out and not self._end_sent and not self.closed:
            self._end_sent = True
            try:
                self._sock.shutdown(socket.SHUT_WR)
            except OSError:
                self._break()

    def _ready(self, events):
        if self._out and events & (OUT | HUNG_UP | BROKEN):
            self._flush()
        if not self.closed and self._limit > 0 and events & (IN | HUNG_UP | BROKEN):
            self._receive(events)

    def _flush(self):
        done = 0
        while self._out:
            data = self._out[0]
            sent = self._send(data)
            if sent is None:
                return
            done += sent
            if sent < len(data):
                self._out[0] = memoryview(data)[sent:]
                break
            self._out.popleft()
        self.waiting -= done
        if done:
            self._owner.wrote(done)
        self._finish()
        self._update()

    def _receive(self, events):
        try:
            data = self._sock.recv(min(CHUNK, self._limit))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._break()
            return
        if data:
            self._owner.got(data)
            return
        self.read_ended = True
        self._update()
        self._owner.got_end(bool(events & HUNG_UP))


class Listener:
    """Accepts connections while there is room for them."""

    def __init__(self, loop, sock, accepted):
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._accepted = accepted
        self.accept(True)

    def accept(self, room):
        self._loop.watch(self._sock.fileno(), IN if room else 0, self._ready)

    def close(self):
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    def _ready(self, _events):
        try:
            sock, _address = self._sock.accept()
        except OSError:
            return
        self._accepted(sock)


def listen_tcp(port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(512)
    return sock


def send_at_once(sock):
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def detach():
    """Goes on in a child that has no terminal, no session of its parent's and none of its streams."""
    sys.stdout.flush()
    if os.fork() > 0:
        os._exit(0)
    os.setsid()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


class Side:
    """One of the two sockets of a forwarded connection."""

    def __init__(self, loop, sock, pair):
        self._pair = pair
        self.connection = Connection(loop, sock, self)
        self.other = None

    def got(self, data):
        self.other.connection.write(data)
        self._pace()

    def got_end(self, closed):
        self.other.connection.end()
        self._pair.settle(closed and self.connection.waiting > 0)

    def wrote(self, _count):
        self.other._pace()
        self._pair.settle(False)

    def broke(self):
        self._pair.settle(True)

    def _pace(self):
        room = FORWARD_BUFFER - self.other.connection.waiting
        self.connection.read_up_to(CHUNK if room > 0 else 0)

    def start(self, other):
        self.other = other
        self.connection.read_up_to(CHUNK)


class Pair:
    """A connection to a port and the one to the socket it leads to."""

    def __init__(self, loop, one, two, ended):
        self._ended = ended
        self._over = False
        self._one = Side(loop, one, self)
        self._two = Side(loop, two, self)
        self._one.start(self._two)
        self._two.start(self._one)

    def settle(self, broken):
        """Closes both when one broke, or when both directions were carried to their end."""
        sides = (self._one.connection, self._two.connection)
        if self._over or not (
            broken or all(s.read_ended and s.write_ended for s in sides)
        ):
            return
        self._over = True
        for side in sides:
            side.close()
        self._ended()


class Forward:
    """Connects connections of a port with a Unix socket."""

    def __init__(self, loop, sock, target):
        self._loop = loop
        self._target = target
        self._count = 0
        self._listener = Listener(loop, sock, self._accepted)

    def _accepted(self, sock):
        send_at_once(sock)
        target = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        target.setblocking(False)
        try:
            target.connect(self._target)
        except OSError:
            target.close()
            sock.close()
            return
        self._count += 1
        self._listener.accept(self._count < MAX_CONNECTIONS)
        Pair(self._loop, sock, target, self._ended)

    def _ended(self):
        self._count -= 1
        self._listener.accept(True)


def forward(arguments):
    background = arguments[:1] == ["--detach"]
    routes = [
        argument.split("=", 1) for argument in arguments[1 if background else 0 :]
    ]
    if not routes or any(len(route) != 2 or not route[0].isdigit() for route in routes):
        return usage()
    loop = Loop()
    ports = []
    for port, target in routes:
        try:
            sock = listen_tcp(int(port))
        except OSError as error:
            print(
                f"cannot listen at 127.0.0.1:{port}: {error.strerror}", file=sys.stderr
            )
            return EXIT_CANNOT_LISTEN
        ports.append(str(sock.getsockname()[1]))
        Forward(loop, sock, target)
    print("listening", *ports, flush=True)
    if background:
        detach()
    while True:
        loop.turn(60000)


def usage():
    sys.stderr.write(__doc__)
    return 2


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    modes = {"forward": forward}
    mode = modes.get(sys.argv[1]) if len(sys.argv) > 1 else None
    return usage() if mode is None else mode(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
