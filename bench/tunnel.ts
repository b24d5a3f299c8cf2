// What the tunnel adds to the mounted socket: the same calls from inside one Docker sandbox over both, in pairs within one
// run. A unary call is 60 KB up and 20 KB down; "trickle" is how long one event of a stream takes from the server's write to
// the client's read; the relay's memory is read while 100 connections are open that each had 60 KB.
//
//   npx tsx bench/tunnel.ts [pairs]
import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSandboxProvider } from '../src/sandbox/index.ts';
import { openTunnel } from '../src/sandbox/tunnel/index.ts';

const pairs = Number(process.argv[2] ?? 200);

const client = String.raw`
import json, socket, sys, threading, time
pairs = int(sys.argv[1])
BODY = b"x" * 60000
def call(path, keep=None, what=b"/unary", read=True):
    sock = keep
    if sock is None:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
    sock.sendall(b"POST " + what + b" HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + BODY)
    if not read:
        return sock
    came = b""
    while b"\r\n\r\n" not in came:
        came += sock.recv(65536)
    head, _, rest = came.partition(b"\r\n\r\n")
    left = 20000 - len(rest)
    while left > 0:
        left -= len(sock.recv(65536))
    return sock
def median(values):
    return sorted(values)[len(values) // 2]
def timed(path, keep):
    start = time.perf_counter()
    sock = call(path, keep)
    spent = (time.perf_counter() - start) * 1000
    if keep is None:
        sock.close()
    return spent
PATHS = ["/gw/gw.sock", "/tunnel/gw.sock"]
found = {}
kept = [call(path) for path in PATHS]
for name, keep in (("kept", True), ("new", False)):
    spent = [[], []]
    for _ in range(20):
        for i in (0, 1): timed(PATHS[i], kept[i] if keep else None)
    for n in range(pairs):
        for i in (0, 1) if n % 2 else (1, 0):
            spent[i].append(timed(PATHS[i], kept[i] if keep else None))
    found[name] = [median(s) for s in spent]
def many(path):
    def run():
        sock = None
        for _ in range(25):
            sock = call(path, sock)
        sock.close()
    threads = [threading.Thread(target=run) for _ in range(20)]
    start = time.perf_counter()
    for t in threads: t.start()
    for t in threads: t.join()
    return 500 / (time.perf_counter() - start)
rates = [[], []]
for _ in range(3):
    for i in (0, 1): rates[i].append(many(PATHS[i]))
found["calls_a_second"] = [median(r) for r in rates]
def trickle(path):
    sock = call(path, None, b"/trickle", False)
    late = []
    came = b""
    while True:
        data = sock.recv(65536)
        now = time.monotonic_ns()
        if not data: break
        for line in data.split(b"\n"):
            if line.startswith(b"data: "): late.append((now - int(line[6:])) / 1e6)
    sock.close()
    return median(late)
found["trickle"] = [trickle(path) for path in PATHS]
open_ones = [call(PATHS[1]) for _ in range(100)]
print(json.dumps(found), flush=True)
sys.stdin.read()
`;

const directory = await mkdtemp(join(tmpdir(), 'rp-bench-'));
await chmod(directory, 0o711);
const answer = 'y'.repeat(20_000);
const gateway = createServer((request, response) => {
  request.resume().on('end', () => {
    if (request.url !== '/trickle') {
      response.end(answer);
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', connection: 'close' });
    let left = 100;
    const timer = setInterval(() => {
      if (left-- > 0) response.write(`data: ${process.hrtime.bigint()}\n\n`);
      else {
        clearInterval(timer);
        response.end();
      }
    }, 10);
  });
});
const socket = join(directory, 'gw.sock');
await new Promise<void>((resolve) => gateway.listen(socket, resolve));
await chmod(socket, 0o666);
await using provider = createSandboxProvider('docker');
const { signal } = new AbortController();
try {
  await using sandbox = await provider.create({
    spec: { cpus: 2, memory_mb: 512, network: 'none', workdir: '/workspace' },
    owner: {
      pool: 'bench',
      worker: 'bench',
      run_id: 'bench',
      episode_id: 'bench',
      attempt: 1,
      nonce: randomBytes(8).toString('hex'),
    },
    gateway_dir: directory,
    cli_binary: null,
    ttl_seconds: 600,
    signal,
  });
  const opening = performance.now();
  await using tunnel = await openTunnel({
    host: sandbox,
    routes: [{ name: 'gateway', listen: { unix: '/tunnel/gw.sock' }, target: socket }],
    signal,
  });
  const opened = performance.now() - opening;
  await sandbox.upload({ 'client.py': client });
  await using running = await sandbox.spawn(['python3', 'client.py', String(pairs)], { user: 'agent' });
  running.stderr.pipe(process.stderr);
  let text = '';
  for await (const chunk of running.stdout) {
    text += String(chunk);
    if (text.includes('\n')) break;
  }
  const found = JSON.parse(text) as Record<string, [number, number]>;
  const memory = await sandbox.exec(
    'for f in /proc/[0-9]*/cmdline; do grep -qz "^daemon$" $f 2>/dev/null && grep VmRSS ${f%cmdline}status; done',
    { timeout_ms: 30_000 },
  );
  const say = (what: string, [mounted, through]: [number, number], unit: string): void =>
    console.log(
      `${what}: mounted ${mounted.toFixed(2)}, tunnel ${through.toFixed(2)} ${unit} ` +
        `(ratio ${(through / mounted).toFixed(2)}, added ${(through - mounted).toFixed(2)})`,
    );
  console.log(`opened in ${opened.toFixed(0)} ms`);
  say('unary call, kept connection', found['kept']!, 'ms');
  say('unary call, new connection', found['new']!, 'ms');
  say('20 at once', found['calls_a_second']!, 'calls/s');
  say('trickle, one event', found['trickle']!, 'ms');
  console.log(`relay with ${tunnel.stats().open_streams} connections: ${memory.stdout.replace(/\s+/g, ' ')}`);
} finally {
  gateway.closeAllConnections();
  gateway.close();
  await rm(directory, { recursive: true, force: true });
}
