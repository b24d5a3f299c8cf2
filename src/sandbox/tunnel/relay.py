"""Carries byte streams between a sandbox and its worker.

One file, Python 3.8 or newer, standard library only.

daemon: keeps the streams. Started once by root; goes on in the background until nobody attached for LINGER seconds.

    python3 -I -S relay.py daemon DIRECTORY LINGER

  DIRECTORY is root's alone (0700) and has the control socket. Where to listen is said by who attaches. One that runs
  there already is left as it is.

attach: hands its stdin and stdout to the daemon and waits until they are of no use any more. MARKER comes before the
first frame in both directions. Exit code 3: no daemon runs there.

    python3 -I -S relay.py attach DIRECTORY MARKER

forward: connects every connection to a TCP port of 127.0.0.1 with a Unix socket in the same sandbox.

    python3 -I -S relay.py forward [--detach] PORT=SOCKET [PORT=SOCKET ...]

  Port 0 takes a free one. Prints one line `listening PORT ...` with the ports in order once all listen; with
  `--detach` it then goes on in the background, in a session of its own, and the command itself exits with 0.
  A port that is taken is exit code 4 with one line on stderr. The socket need not be there when it starts:
  a connection made while nobody listens at it is closed.
"""

import array
import collections
import fcntl
import os
import select
import signal
import socket
import stat
import struct
import sys
import time
import zlib

CHUNK = 64 * 1024
"""Bytes read from a socket at once."""
FORWARD_BUFFER = 256 * 1024
"""Bytes a forwarded connection may hold for a side that does not read."""
MAX_CONNECTIONS = 256
"""Connections at once; more wait in the kernel's queue."""
EXIT_CANNOT_LISTEN = 4
EXIT_NO_DAEMON = 3
EXIT_OLD_PYTHON = 94

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
        self._finish()
        self._update()
        if done:
            self._owner.wrote(done)

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
        if self._sock.family == socket.AF_UNIX:
            unlink(self._sock.getsockname())
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


# A frame, as frame.ts reads and writes it. 20 bytes, big endian: magic (2), type (1), flag (1), stream (4), number (4; 0
# where the type is not numbered), length of the payload (4), CRC-32 of all of it but itself (4); then the payload.
MAGIC = 0x5250
HEADER = struct.Struct(">HBBIIII")
UNCHECKED = struct.Struct(">HBBIII")
HELLO, ACK, PING, PONG, BYE = 1, 2, 3, 4, 5
OPEN, DATA, END, RESET, MORE = 16, 17, 18, 19, 20
MAX_PAYLOAD = 64 * 1024
MAX_NOISE = 1024 * 1024
WINDOW = 256 * 1024
"""Bytes an end may send of a connection before the other has passed some of them on."""
MAX_UNACKNOWLEDGED = 2 * 1024 * 1024
"""Bytes that may be on their way unacknowledged; past them nothing more is read from any connection."""
ACK_BYTES = 64 * 1024
ACK_SECONDS = 0.01
"""What came is acknowledged after so much or so long, when nothing else is sent."""
GREETING_SECONDS = 20
"""How long who attaches may take to say the first thing."""
MAX_STRANGERS = 16
"""Connections to the control socket that have not said anything yet."""


def encode(kind, flag=0, stream=0, number=0, payload=b""):
    head = UNCHECKED.pack(MAGIC, kind, flag, stream, number, len(payload))
    check = zlib.crc32(payload, zlib.crc32(head))
    return b"".join((head, check.to_bytes(4, "big"), payload))


class BrokenChannel(Exception):
    """What came over a channel cannot be: it is given up."""


class Channel:
    """The stdin and stdout of one `attach`: frames over them."""

    def __init__(self, loop, control, streams, marker, daemon):
        self._loop = loop
        self._control = control
        self._in, self._out = streams
        self._marker = marker
        self._daemon = daemon
        self._came = bytearray()
        self._going = collections.deque()
        self._noise = 0
        self.closed = False
        self.greeted = False
        self.silence = GREETING_SECONDS
        self.heard = time.monotonic()
        for fd in streams:
            os.set_blocking(fd, False)
        loop.watch(self._in, IN, self._readable)
        loop.watch(control.fileno(), IN, lambda _events: self.close())
        self.write(marker)

    def write(self, data):
        """Sends with the next flush."""
        self._going.append(data)

    def flush(self):
        while self._going and not self.closed:
            batch = [self._going[i] for i in range(min(len(self._going), 32))]
            try:
                sent = os.writev(self._out, batch)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self.close()
                return
            for piece in batch:
                if sent < len(piece):
                    self._going[0] = memoryview(piece)[sent:]
                    break
                sent -= len(piece)
                self._going.popleft()
            else:
                continue
            break
        if not self.closed:
            self._loop.watch(self._out, OUT if self._going else 0, self._writable)

    def close(self):
        if self.closed:
            return
        self.closed = True
        for fd in (self._in, self._out):
            self._loop.forget(fd)
            os.close(fd)
        self._loop.forget(self._control.fileno())
        self._control.close()
        self._going.clear()
        self._daemon.gone(self)

    def _writable(self, events):
        if events & (HUNG_UP | BROKEN) and not events & OUT:
            self.close()
        else:
            self.flush()

    def _readable(self, _events):
        try:
            data = os.read(self._in, 4 * CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        self.heard = time.monotonic()
        self._came += data
        try:
            if self._marker is None or self._skip():
                self._frames()
        except BrokenChannel:
            self.close()

    def _skip(self):
        """Drops what comes before the marker."""
        at = self._came.find(self._marker)
        if at < 0:
            useless = max(0, len(self._came) - len(self._marker) + 1)
            self._noise += useless
            del self._came[:useless]
            if self._noise > MAX_NOISE:
                raise BrokenChannel
            return False
        del self._came[: at + len(self._marker)]
        self._marker = None
        return True

    def _frames(self):
        came = bytes(self._came)
        view = memoryview(came)
        at = 0
        while len(came) - at >= HEADER.size:
            magic, kind, flag, stream, number, length, check = HEADER.unpack_from(
                came, at
            )
            if magic != MAGIC or length > MAX_PAYLOAD:
                raise BrokenChannel
            start = at + HEADER.size
            if len(came) - start < length:
                break
            payload = view[start : start + length]
            if check != zlib.crc32(payload, zlib.crc32(view[at : at + 16])):
                raise BrokenChannel
            at = start + length
            self._daemon.frame(self, kind, flag, stream, number, payload)
            if self.closed:
                return
        del self._came[:at]


class Stream:
    """One connection made inside."""

    def __init__(self, daemon, number, sock):
        self._daemon = daemon
        self._number = number
        self._credit = WINDOW
        self._passed_on = 0
        self._over = False
        self._deaf = False
        """Nobody takes what this connection says any more."""
        self.connection = Connection(daemon.loop, sock, self)

    def got(self, data):
        self._credit -= len(data)
        self._daemon.send(DATA, 0, self._number, data)
        self.pace()

    def got_end(self, closed):
        self._daemon.send(END, 1 if closed else 0, self._number)
        if closed:
            self.leave()
        else:
            self._settle()

    def wrote(self, count):
        self._passed_on += count
        if self._passed_on >= WINDOW // 4 and not self._over:
            self._daemon.send(MORE, 0, self._number, self._passed_on.to_bytes(4, "big"))
            self._passed_on = 0
        self._settle()

    def broke(self):
        if not self._over:
            self._daemon.send(RESET, 0, self._number)
            self.leave()

    def take(self, kind, flag, payload):
        if kind == DATA:
            if self.connection.waiting + len(payload) > WINDOW:
                raise BrokenChannel
            self.connection.write(bytes(payload))
        elif kind == END:
            self._deaf = flag == 1
            self.pace()
            self.connection.end()
            self._settle()
        elif kind == MORE:
            self._credit += int.from_bytes(payload, "big")
            self.pace()
        else:
            self.leave()

    def pace(self):
        held = self._daemon.full or self._deaf
        self.connection.read_up_to(0 if held else self._credit)

    def leave(self):
        if not self._over:
            self._over = True
            self.connection.close()
            self._daemon.left(self._number)

    def _settle(self):
        if self.connection.write_ended and (self.connection.read_ended or self._deaf):
            self.leave()


class Daemon:
    """Numbered frames over one channel after another, and the connections they are about."""

    def __init__(self, loop, directory, control, linger):
        self.loop = loop
        self.full = False
        self._directory = directory
        self._linger = linger
        self._alone_since = time.monotonic()
        self._control = Listener(loop, control, self._stranger)
        self._strangers = {}
        self._channels = set()
        self._channel = None
        self._listeners = {}
        self._ended = False
        self._streams = {}
        self._begin()

    def run(self):
        checked = time.monotonic()
        while not self._ended:
            self.loop.turn(5 if self._owed else 1000)
            now = time.monotonic()
            if self._owed and (self._owed >= ACK_BYTES or now >= self._ack_at):
                self._acknowledge()
            for channel in tuple(self._channels):
                channel.flush()
            if now - checked >= 1:
                checked = now
                self._check(now)

    def end(self):
        """Leaves nothing behind."""
        for listener in self._listeners.values():
            listener.close()
        self._control.close()
        for name in ("relay.py", "lock"):
            unlink(os.path.join(self._directory, name))
        try:
            os.rmdir(self._directory)
        except OSError:
            pass

    # What channels bring.

    def frame(self, channel, kind, flag, stream, number, payload):
        if not channel.greeted:
            if kind != HELLO:
                raise BrokenChannel
            self._hello(channel, payload)
        elif channel is not self._channel:
            raise BrokenChannel
        elif kind >= OPEN:
            if number != self._received + 1:
                raise BrokenChannel
            if self._owed == 0:
                self._ack_at = time.monotonic() + ACK_SECONDS
            self._received = number
            self._owed += HEADER.size + len(payload)
            known = self._streams.get(stream)
            if known is not None:
                known.take(kind, flag, payload)
        elif kind == ACK:
            self._acknowledged(number)
        elif kind == PING:
            channel.write(encode(PONG))
        elif kind == BYE:
            self._ended = True

    def gone(self, channel):
        self._channels.discard(channel)
        if channel is self._channel:
            self._channel = None
            self._alone_since = time.monotonic()

    def _hello(self, channel, payload):
        said = {"route": []}
        try:
            for line in bytes(payload).decode().splitlines():
                key, _, value = line.partition(" ")
                said["route"].append(value) if key == "route" else said.update(
                    {key: value}
                )
            received = int(said["received"])
            channel.silence = float(said["silence_ms"]) / 1000
            session = said["session"]
        except (ValueError, KeyError):
            raise BrokenChannel from None
        channel.greeted = True
        if self._channel is not None:
            self._channel.close()
        if session != self._session or not self._first - 1 <= received <= self._sent:
            self._begin()
            received = 0
        self._channel = channel
        answer = f"session {self._session}\nreceived {self._received}"
        try:
            self._listen(said["route"])
        except (OSError, ValueError) as error:
            answer = f"cannot listen: {error}"
        channel.write(encode(HELLO, payload=answer.encode()))
        self._owed = 0
        self._acknowledged(received)
        for kept in self._kept:
            channel.write(kept)

    # Frames that are numbered.

    def _begin(self):
        for stream in tuple(self._streams.values()):
            stream.leave()
        self._session = os.urandom(16).hex()
        self._received = 0
        self._owed = 0
        self._ack_at = 0.0
        self._sent = 0
        self._first = 1
        self._kept = collections.deque()
        self._kept_bytes = 0
        self._next = 0
        self._pace()

    def send(self, kind, flag, stream, payload=b""):
        self._sent += 1
        data = encode(kind, flag, stream, self._sent, payload)
        self._kept.append(data)
        self._kept_bytes += len(data)
        if self._channel is not None:
            self._channel.write(data)
            if self._owed:
                self._acknowledge()
        if not self.full and self._kept_bytes >= MAX_UNACKNOWLEDGED:
            self._pace()

    def _acknowledged(self, number):
        if number > self._sent:
            raise BrokenChannel
        while self._first <= number:
            self._kept_bytes -= len(self._kept.popleft())
            self._first += 1
        if self.full:
            self._pace()

    def _acknowledge(self):
        self._owed = 0
        if self._channel is not None:
            self._channel.write(encode(ACK, number=self._received))

    def _pace(self):
        full = self._kept_bytes >= MAX_UNACKNOWLEDGED
        if full != self.full:
            self.full = full
            for stream in self._streams.values():
                stream.pace()

    # Connections made inside.

    def _listen(self, routes):
        """Listens at `unix MODE PATH` and `tcp PORT` of the list, and nowhere else."""
        for route in [route for route in self._listeners if route not in routes]:
            self._listeners.pop(route).close()
        self._indexes = {route: index for index, route in enumerate(routes)}
        for route in routes:
            if route in self._listeners:
                continue
            kind, _, where = route.partition(" ")
            if kind == "unix":
                mode, _, path = where.partition(" ")
                sock = listen_unix(path, int(mode, 8))
            else:
                sock = listen_tcp(int(where))
            self._listeners[route] = Listener(
                self.loop, sock, lambda sock, route=route: self._accepted(sock, route)
            )

    def _accepted(self, sock, route):
        send_at_once(sock)
        self._next += 1
        stream = Stream(self, self._next, sock)
        self._streams[self._next] = stream
        if len(self._streams) >= MAX_CONNECTIONS:
            self._room(False)
        self.send(OPEN, self._indexes[route], self._next)
        stream.pace()

    def left(self, number):
        del self._streams[number]
        if len(self._streams) == MAX_CONNECTIONS - 1:
            self._room(True)

    def _room(self, room):
        for listener in self._listeners.values():
            listener.accept(room)

    # Who comes to the control socket.

    def _stranger(self, sock):
        if len(self._strangers) >= MAX_STRANGERS or not is_own(sock):
            sock.close()
            return
        sock.setblocking(False)
        self._strangers[sock] = time.monotonic()
        self.loop.watch(sock.fileno(), IN, lambda _events: self._introduced(sock))

    def _introduced(self, sock):
        self.loop.forget(sock.fileno())
        del self._strangers[sock]
        fds = array.array("i")
        try:
            marker, controls, _flags, _address = sock.recvmsg(
                256, socket.CMSG_SPACE(8 * fds.itemsize)
            )
            for level, kind, data in controls:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        except OSError:
            marker = b""
        if len(fds) == 2 and 16 <= len(marker) <= 128:
            self._channels.add(Channel(self.loop, sock, tuple(fds), marker, self))
            return
        for fd in fds:
            os.close(fd)
        sock.close()

    def _check(self, now):
        for sock, since in tuple(self._strangers.items()):
            if now - since > GREETING_SECONDS:
                self.loop.forget(sock.fileno())
                del self._strangers[sock]
                sock.close()
        for channel in tuple(self._channels):
            if now - channel.heard > channel.silence:
                channel.close()
        if self._channel is None and now - self._alone_since > self._linger:
            self._ended = True


def is_own(sock):
    """Whether who connected is the daemon's own user. The mode of the socket says the same."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", found)[1] == os.geteuid()


def unlink(path):
    try:
        os.unlink(path)
    except OSError:
        pass


def listen_unix(path, mode):
    """Listens at a path; a socket that is there already is somebody's who died."""
    try:
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
        os.chmod(path, mode)
        sock.listen(512)
    except OSError:
        sock.close()
        raise
    return sock


def daemon(arguments):
    if len(arguments) != 2:
        return usage()
    directory, linger = arguments[0], float(arguments[1])
    os.umask(0o022)
    lock = os.open(os.path.join(directory, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0
    try:
        control = listen_unix(os.path.join(directory, "control"), 0o600)
    except OSError as error:
        print(f"cannot listen in {directory}: {error.strerror}", file=sys.stderr)
        return EXIT_CANNOT_LISTEN
    detach()
    os.umask(0o022)
    served = Daemon(Loop(), directory, control, linger)
    try:
        served.run()
    finally:
        served.end()
    return 0


def attach(arguments):
    if len(arguments) != 2:
        return usage()
    directory, marker = arguments
    control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        control.connect(os.path.join(directory, "control"))
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1]))
        control.sendmsg([marker.encode()], [rights])
    except OSError as error:
        print(f"no relay runs in {directory}: {error.strerror}", file=sys.stderr)
        return EXIT_NO_DAEMON
    try:
        control.recv(1)
    except OSError:
        pass
    return 0


def usage():
    sys.stderr.write(__doc__)
    return 2


def main():
    if sys.version_info < (3, 8):  # noqa: UP036
        return EXIT_OLD_PYTHON
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    modes = {"daemon": daemon, "attach": attach, "forward": forward}
    mode = modes.get(sys.argv[1]) if len(sys.argv) > 1 else None
    return usage() if mode is None else mode(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
