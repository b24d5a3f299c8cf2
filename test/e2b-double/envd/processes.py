"""The process service: commands, their output to whoever listens now, their signals."""

import base64
import contextlib
import os
import queue
import signal
import subprocess
import threading
import time

from accounts import resolve
from connect import RpcError

CHUNK = 32 * 1024
BUFFERED_EVENTS = 64
KEPT_ENDED = 200
SIGNALS = {
    "SIGNAL_SIGTERM": signal.SIGTERM,
    "SIGNAL_SIGKILL": signal.SIGKILL,
    15: signal.SIGTERM,
    9: signal.SIGKILL,
}


def end_event(code):
    if code < 0:
        status = f"signal: {signal.strsignal(-code).lower()}"
        return {"exitCode": -1, "exited": False, "status": status, "error": status}
    event = {"exitCode": code, "exited": True, "status": f"exit status {code}"}
    if code != 0:
        event["error"] = f"exit status {code}"
    return event


class Process:
    """One command. Its output goes to the subscribers it has at that moment and is dropped when it has none."""

    def __init__(self, config, tag, wants_stdin, account, default_env, timeout):
        cwd = resolve(config.get("cwd") or ".", account)
        if not os.path.isdir(cwd):
            raise RpcError("invalid_argument", f"cwd '{cwd}' does not exist")
        env = {
            "PATH": os.environ["PATH"],
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "LOGNAME": account.pw_name,
            **default_env,
            **config.get("envs", {}),
        }
        self.config = config
        self.tag = tag
        self.end = None
        self.subscribers = []
        self.lock = threading.Lock()
        self.stdin_lock = threading.Lock()
        self.output_off = threading.Event()
        try:
            self.child = subprocess.Popen(
                [config.get("cmd", ""), *config.get("args", [])],
                cwd=cwd,
                env=env,
                stdin=subprocess.PIPE if wants_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
            )
        except OSError as error:
            raise RpcError(
                "invalid_argument", f"error starting process: {error}"
            ) from None
        self.pid = self.child.pid
        self.readers = [
            threading.Thread(
                target=self.read, args=(self.child.stdout, "stdout"), daemon=True
            ),
            threading.Thread(
                target=self.read, args=(self.child.stderr, "stderr"), daemon=True
            ),
        ]
        self.timer = None
        if timeout is not None:
            self.timer = threading.Timer(timeout, self.signal, (signal.SIGKILL,))
            self.timer.daemon = True

    def begin(self, on_end):
        for reader in self.readers:
            reader.start()
        if self.timer is not None:
            self.timer.start()
        threading.Thread(target=self.wait, args=(on_end,), daemon=True).start()

    def read(self, pipe, name):
        while not self.output_off.is_set():
            try:
                data = os.read(pipe.fileno(), CHUNK)
            except OSError:
                break
            if not data:
                break
            self.publish({"data": {name: base64.b64encode(data).decode()}})

    def publish(self, event):
        with self.lock:
            listening = list(self.subscribers)
        for subscriber in listening:
            # A slow reader holds the command back; one that left does not.
            while subscriber in self.subscribers and not self.output_off.is_set():
                try:
                    subscriber.put(event, timeout=0.2)
                    break
                except queue.Full:
                    continue

    def wait(self, on_end):
        # The end is told when the output has ended, which others may hold open, unless the command was signalled.
        while (
            any(reader.is_alive() for reader in self.readers)
            and not self.output_off.is_set()
        ):
            for reader in self.readers:
                reader.join(0.05)
        code = self.child.wait()
        if self.timer is not None:
            self.timer.cancel()
        with self.lock:
            self.end = end_event(code)
            listening = list(self.subscribers)
        self.output_off.set()
        for reader, pipe in zip(
            self.readers, (self.child.stdout, self.child.stderr), strict=True
        ):
            if not reader.is_alive():
                pipe.close()
        on_end(self)
        for subscriber in listening:
            while subscriber in self.subscribers:
                try:
                    subscriber.put({"end": self.end}, timeout=0.2)
                    break
                except queue.Full:
                    continue
        self.close_stdin()

    def subscribe(self):
        """A queue of what comes from now on; with the end alone when it has ended already."""
        events = queue.Queue(BUFFERED_EVENTS)
        with self.lock:
            if self.end is not None:
                events.put({"end": self.end})
            self.subscribers.append(events)
        return events

    def unsubscribe(self, events):
        with self.lock:
            self.subscribers.remove(events)

    def signal(self, number):
        # The process alone: no group, no session, none of what it started.
        if self.child.poll() is None:
            self.output_off.set()
            self.child.send_signal(number)

    def write_stdin(self, data):
        with self.stdin_lock:
            if self.child.stdin is None or self.child.stdin.closed:
                raise RpcError(
                    "internal", "error writing to stdin: stdin not enabled or closed"
                )
            try:
                view = memoryview(data)
                while view:
                    view = view[self.child.stdin.write(view) :]
            except OSError as error:
                raise RpcError(
                    "internal",
                    f"error writing to stdin of process '{self.pid}': {error}",
                ) from None

    def close_stdin(self):
        with self.stdin_lock:
            if self.child.stdin is not None and not self.child.stdin.closed:
                self.child.stdin.close()


class Processes:
    def __init__(self):
        self.running = {}
        self.ended = {}
        self.lock = threading.Lock()

    def start(self, request, account, default_env, timeout):
        process = Process(
            request.get("process", {}),
            request.get("tag"),
            request.get("stdin", True),
            account,
            default_env,
            timeout,
        )
        with self.lock:
            self.running[process.pid] = process
            self.ended.pop(process.pid, None)
        events = process.subscribe()
        process.begin(self.on_end)
        return process, events

    def on_end(self, process):
        with self.lock:
            self.running.pop(process.pid, None)
            self.ended[process.pid] = process
            while len(self.ended) > KEPT_ENDED:
                self.ended.pop(next(iter(self.ended)))

    def find(self, selector, ended=False):
        selector = selector or {}
        with self.lock:
            if "pid" in selector:
                found = self.running.get(selector["pid"])
                if found is None and ended:
                    found = self.ended.get(selector["pid"])
            else:
                found = next(
                    (p for p in self.running.values() if p.tag == selector.get("tag")),
                    None,
                )
        if found is None:
            wanted = selector.get("pid", selector.get("tag"))
            raise RpcError("not_found", f"process with pid {wanted} not found")
        return found

    def list(self):
        with self.lock:
            running = list(self.running.values())
        return {
            "processes": [
                {"config": p.config, "pid": p.pid, **({"tag": p.tag} if p.tag else {})}
                for p in running
            ]
        }

    def send_input(self, request):
        process = self.find(request.get("process"))
        data = request.get("input", {})
        if "stdin" not in data:
            raise RpcError("unimplemented", "there are no terminals here")
        process.write_stdin(base64.b64decode(data["stdin"]))
        return {}

    def close_stdin(self, request):
        self.find(request.get("process")).close_stdin()
        return {}

    def send_signal(self, request):
        process = self.find(request.get("process"))
        number = SIGNALS.get(request.get("signal"))
        if number is None:
            raise RpcError("unimplemented", f"invalid signal: {request.get('signal')}")
        process.signal(number)
        return {}

    def update(self, request):
        self.find(request.get("process"))
        raise RpcError("internal", "error resizing tty: tty not assigned to process")

    def reboot(self):
        """What a start without kept memory is: nothing runs any more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while self.running and time.monotonic() < deadline:
            time.sleep(0.01)
