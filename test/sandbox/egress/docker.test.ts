import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSandboxProvider, type Sandbox, type SandboxProvider } from '../../../src/sandbox/index.ts';
import { openSandboxEgress } from '../../../src/sandbox/egress/index.ts';
import { silentLogger } from '../../../src/observe/index.ts';
import { haveDocker } from '../docker-daemon.ts';
import { greeting, openGateway, ownerOf, requestOf } from '../fixture.ts';
import { farHosts, get, interfaces, lookUp, noWayOut, python, waysOut } from './inside.ts';
import { httpHost, httpsHost, tcpHost, temporary } from './stage.ts';

const forwarder = 'http://127.0.0.1:13128';
const run = { user: 'agent', timeout_ms: 60_000 } as const;

describe.runIf(haveDocker)('a docker sandbox with an allow list', () => {
  const opened: AsyncDisposable[] = [];
  let provider: SandboxProvider;
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let plain: Awaited<ReturnType<typeof httpHost>>;
  let secure: Awaited<ReturnType<typeof httpsHost>>;
  let other: Awaited<ReturnType<typeof tcpHost>>;
  let echo: Awaited<ReturnType<typeof tcpHost>>;
  let runtime: string;
  let sandbox: Sandbox;
  let allow: string[];
  const keep = <T extends AsyncDisposable>(one: T): T => {
    opened.push(one);
    return one;
  };
  const getOne = async (from: Sandbox, url: string): Promise<string> => (await get(from, [url]))[0]!;

  beforeAll(async () => {
    gateway = keep(await openGateway());
    plain = keep(await httpHost((request, response) => response.end(`plain ${request.headers.host}`)));
    secure = keep(await httpsHost('allowed.test', (_request, response) => response.end('secure')));
    other = keep(await tcpHost((socket) => socket.end('other'), '0.0.0.0'));
    echo = keep(await tcpHost((socket) => socket.pipe(socket)));
    runtime = keep(temporary()).path;
    provider = keep(
      createSandboxProvider('docker', {
        runtimeDirectory: runtime,
        egress: { allowPrivate: ['127.0.0.1/32'], resolve: () => Promise.resolve(['127.0.0.1']) },
      }),
    );
    allow = [plain, secure, echo].map(({ port }) => `allowed.test:${port}`).concat('10.0.0.0/8');
    sandbox = keep(await provider.create(requestOf(gateway.directory, { spec: { network: { allow } } })));
    await sandbox.upload({ 'trusted.pem': secure.certificate });
  });
  afterAll(async () => {
    for (const one of opened.reverse()) await one[Symbol.asyncDispose]();
  });

  test('reaches its hosts by HTTP and HTTPS, whoever asks', async () => {
    expect(sandbox.proxy_url).toBe(forwarder);
    const urls = [`http://allowed.test:${plain.port}/`, `https://allowed.test:${secure.port}/`];
    for (const user of ['agent', 'grader', 'root'] as const) {
      expect(await get(sandbox, urls, user)).toEqual([`200 plain allowed.test:${plain.port}`, '200 secure']);
    }
  });

  test('says to every command where its proxy is', async () => {
    const found = await sandbox.exec('env | grep -i proxy | sort', { ...run, env: { MINE: '1' } });
    expect(found.stdout.trim().split('\n')).toEqual([
      `ALL_PROXY=${forwarder}`,
      `HTTPS_PROXY=${forwarder}`,
      `HTTP_PROXY=${forwarder}`,
      'NO_PROXY=localhost,127.0.0.1,::1',
      `all_proxy=${forwarder}`,
      `http_proxy=${forwarder}`,
      `https_proxy=${forwarder}`,
      'no_proxy=localhost,127.0.0.1,::1',
    ]);
  });

  test('is refused everything else, and told why', async () => {
    const before = sandbox.metrics?.['egress_refused'] ?? 0;
    const tries: [url: string, answer: RegExp][] = [
      ['http://evil.test/', /^403 rollpool: evil\.test:80 is not on the list/],
      ['https://evil.test/', /^failed .*403 evil\.test:443 is not on the list/],
      [`http://allowed.test:${other.port}/`, /^403 .* with this port is not on the list/],
      ['http://169.254.169.254/latest/meta-data/', /^403 .*is not on the list/],
      ['http://[fd00:ec2::254]/latest/', /^403 .*is not on the list/],
      ['http://[2606:4700::1111]/', /^403 .*is not on the list/],
      // A port of the worker, by its own addresses.
      [`http://0.0.0.0:${other.port}/`, /^403 .*is not on the list/],
      [`http://172.17.0.1:${other.port}/`, /^403 .*is not on the list/],
      // On the list, and private: the worker's operator did not open it.
      ['http://10.0.0.1/', /^403 .*is a private address/],
    ];
    const answers = await get(
      sandbox,
      tries.map(([url]) => url),
    );
    for (const [index, [, answer]] of tries.entries()) expect(answers[index]).toMatch(answer);
    expect(other.connections).toHaveLength(0);
    expect((sandbox.metrics?.['egress_refused'] ?? 0) - before).toBe(tries.length);
    expect(sandbox.metrics?.['egress_allowed']).toBeGreaterThan(0);
  });

  test('has no way but the proxy: no interface, no address, no name, no raw packet', async () => {
    expect(await python(sandbox, interfaces)).not.toMatch(/eth|ens|wlan|br-/);
    expect(await python(sandbox, lookUp, ['allowed.test'])).toBe('not-found');
    expect(await waysOut(sandbox, farHosts, other.port)).toEqual(noWayOut(farHosts));
  });

  test('keeps its proxy from the agent: it is root’s, and so is its socket', async () => {
    const found = await sandbox.exec(
      `pid=$(grep -l forward /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | cut -d/ -f3 | while read -r p; do
         [[ $(tr '\\0' ' ' </proc/$p/cmdline) == python3*forward* ]] && echo $p; done)
       kill -9 $pid; kill -STOP $pid; ls /proc/$pid/fd; rm -f /gw/egress.sock; : >/gw/egress.sock
       python3 -c 'import socket; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind(("0.0.0.0", 13128)); s.listen()'`,
      run,
    );
    expect(found.stderr.match(/Operation not permitted/g)).toHaveLength(2);
    expect(found.stderr).toMatch(/ls: cannot open directory/);
    expect(found.stderr).toMatch(/cannot remove '\/gw\/egress\.sock': Read-only file system/);
    expect(found.stderr).toMatch(/Address already in use/);
    await sandbox.killAgent(60_000);
    expect(await getOne(sandbox, `http://allowed.test:${plain.port}/`)).toMatch(/^200/);
  });

  test('reaches the gateway as any other does', async () => {
    const greet = `import socket; s = socket.socket(socket.AF_UNIX); s.connect("/gw/gw.sock"); print(s.recv(99).decode())`;
    expect(await python(sandbox, greet)).toBe(greeting.trim());
  });

  test('carries sixty connections at once, and a direction that ends before the other', async () => {
    const script = `
import socket, sys, threading
answers = []
def talk(i):
    s = socket.create_connection(("127.0.0.1", 13128))
    s.sendall(b"CONNECT allowed.test:%s HTTP/1.1\\r\\n\\r\\n" % sys.argv[1].encode())
    assert b" 200 " in s.recv(200)
    s.sendall(bytes([i]) * 200000)
    s.shutdown(socket.SHUT_WR)
    got = b""
    while chunk := s.recv(65536):
        got += chunk
    answers.append(got == bytes([i]) * 200000)
threads = [threading.Thread(target=talk, args=(i,)) for i in range(60)]
for t in threads: t.start()
for t in threads: t.join()
print(len(answers), all(answers))`;
    expect(await python(sandbox, script, [String(echo.port)])).toBe('60 True');
  });

  test('has its own list and no way to that of another', async () => {
    await using second = await openGateway();
    await using next = await provider.create(
      requestOf(second.directory, { spec: { network: { allow: ['next.test'] } } }),
    );
    expect(await getOne(next, `http://allowed.test:${plain.port}/`)).toMatch(/^403/);
    const found = await next.exec('ls /gw; find / -xdev -name egress.sock', { timeout_ms: 60_000 });
    expect(found.stdout.trim().split(/\s+/)).toEqual(['egress.sock', 'gw.sock']);
    expect(await getOne(sandbox, 'http://next.test/')).toMatch(/^403/);
  });

  test('that was made ahead of its episode has its way out too', async () => {
    const { gateway_dir: _none, ...request } = requestOf('', { spec: { network: { allow } } });
    const prepared = await provider.prepare!({ ...request, owner: ownerOf({ run_id: 'warm' }) });
    const { signal } = new AbortController();
    await using fresh = await openGateway();
    const warm = await prepared.assign({ gateway_dir: fresh.directory, ttl_seconds: 60, signal });
    expect(await getOne(warm, `http://allowed.test:${plain.port}/`)).toMatch(/^200/);
    expect(await getOne(warm, 'http://evil.test/')).toMatch(/^403/);
    await warm[Symbol.asyncDispose]();
    expect(await readdir(runtime)).toEqual([]);
  });

  test('and without a gateway leaves nothing behind either', async () => {
    const alone = await provider.create({
      ...requestOf('', { spec: { network: { allow } } }),
      gateway_dir: null,
    });
    expect(await getOne(alone, `http://allowed.test:${plain.port}/`)).toMatch(/^200/);
    expect(await readdir(runtime)).toHaveLength(1);
    await alone[Symbol.asyncDispose]();
    expect(await readdir(runtime)).toEqual([]);
    expect(alone.metrics).toEqual({ egress_allowed: 1, egress_refused: 0 });
  });

  test('ends its proxy when it ends', async () => {
    await using third = await openGateway();
    const short = await provider.create(requestOf(third.directory, { spec: { network: { allow } } }));
    await access(join(third.directory, 'egress.sock'));
    await short[Symbol.asyncDispose]();
    await expect(access(join(third.directory, 'egress.sock'))).rejects.toThrow('ENOENT');
  });

  test('is the task’s fault where its image has no python3, and ours where a port of it is taken', async () => {
    await using one = temporary();
    const settings = { directory: one.path, runtimeDirectory: null, log: silentLogger };
    await using egress = await openSandboxEgress({ allow: ['a.test'] }, settings);
    const { signal } = new AbortController();
    await expect(egress!.forward(sandbox, '/gw', signal)).rejects.toMatchObject({
      failure: { class: 'infra', phase: 'boot', code: 'egress_failed' },
      message: expect.stringContaining('Address already in use'),
    });
    await sandbox.exec('mv /usr/bin/python3 /usr/bin/python3.away', { timeout_ms: 30_000 });
    await expect(egress!.forward(sandbox, '/gw', signal)).rejects.toMatchObject({
      failure: { class: 'task', phase: 'boot', code: 'no_python' },
      message: expect.stringContaining('sandbox.image'),
    });
    await sandbox.exec('mv /usr/bin/python3.away /usr/bin/python3', { timeout_ms: 30_000 });
  });
});
