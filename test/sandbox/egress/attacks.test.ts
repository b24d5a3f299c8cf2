import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { until } from '../../support/wait.ts';
import { ask, Client, httpHost, openProxy, tcpHost } from './stage.ts';

const names = { 'allowed.test': ['127.0.0.1'] };

describe('an address in another spelling', () => {
  it.each([
    '127.0.0.1',
    '127.1',
    '0x7f000001',
    '0x7f.0.0.1',
    '0177.0.0.1',
    '2130706433',
    '017700000001',
    '127.0.0.1.',
    '[::1]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[fd00:ec2::254]',
    '169.254.169.254',
    '0xa9fea9fe',
    '2852039166',
    '0251.0376.0251.0376',
    '0',
    '0.0.0.0',
    'localhost',
  ])('%s is refused, whether it is asked for by name or by URL', async (host) => {
    // The whole world is on the list: what keeps the request back is the address alone.
    const allow = ['0.0.0.0/0', '::/0', 'localhost'];
    await using opened = await openProxy({
      allow,
      allowPrivate: [],
      names: { localhost: ['127.0.0.1', '::1'] },
    });
    const tunnel = await ask(opened.socketPath, `CONNECT ${host}:80 HTTP/1.1`);
    expect(tunnel.said).toMatch(/^HTTP\/1\.1 403 .*, which sandboxes do not reach/);
    const plain = await ask(opened.socketPath, `GET http://${host}/ HTTP/1.1`, `Host: ${host}`);
    expect(plain.said).toMatch(/^HTTP\/1\.1 403 .*, which sandboxes do not reach/);
    expect(opened.proxy.stats()).toMatchObject({ allowed: 0, refused: 2 });
  });

  it.each([
    '１２７.0.0.1',
    '%31%32%37.0.0.1',
    'allowed.test@127.0.0.1',
    '127.0.0.1#allowed.test',
    '[::1%25lo]',
  ])('%s leads nowhere', async (host) => {
    await using opened = await openProxy({ allow: ['0.0.0.0/0', 'allowed.test'], allowPrivate: [], names });
    const bytes = Buffer.from(host, 'utf8').toString('latin1');
    const tunnel = await ask(opened.socketPath, `CONNECT ${bytes}:80 HTTP/1.1`);
    const plain = await ask(opened.socketPath, `GET http://${bytes}/ HTTP/1.1`, `Host: ${bytes}`);
    expect([400, 403]).toContain(tunnel.status);
    expect([400, 403]).toContain(plain.status);
    expect(opened.proxy.stats().allowed).toBe(0);
  });
});

describe('a name that stands for something else than it did', () => {
  it('is refused as soon as it stands for a private address, and the connection goes where it was looked at', async () => {
    await using host = await tcpHost((socket) => socket.end('the host'));
    await using private_ = await tcpHost((socket) => socket.end('private'), '127.0.0.9');
    const answers = [['127.0.0.5'], ['127.0.0.9'], ['10.0.0.1'], ['169.254.169.254', '::1']];
    let asked = 0;
    await using opened = await openProxy({
      allow: [`allowed.test:${host.port}`, `allowed.test:${private_.port}`],
      allowPrivate: ['127.0.0.5/32'],
      resolve: async () => answers[asked++] ?? [],
    });
    const first = await ask(opened.socketPath, `CONNECT allowed.test:${host.port} HTTP/1.1`);
    // Nobody listens at 127.0.0.5: a second look would have led to 127.0.0.9.
    expect(first.status).toBe(502);
    expect(asked).toBe(1);
    const second = await ask(opened.socketPath, `CONNECT allowed.test:${private_.port} HTTP/1.1`);
    expect(second.said).toMatch(
      /^HTTP\/1\.1 403 allowed\.test:\d+ stands for an address of the machine itself/,
    );
    const third = await ask(opened.socketPath, `CONNECT allowed.test:${host.port} HTTP/1.1`);
    expect(third.said).toMatch(/^HTTP\/1\.1 403 allowed\.test:\d+ stands for a private address/);
    const fourth = await ask(opened.socketPath, `CONNECT allowed.test:${host.port} HTTP/1.1`);
    expect(fourth.status).toBe(403);
    expect(private_.connections).toHaveLength(0);
  });

  it('keeps its public addresses when it has private ones beside them', async () => {
    await using host = await tcpHost((socket) => socket.end('the host'), '127.0.0.5');
    await using opened = await openProxy({
      allow: [`allowed.test:${host.port}`],
      allowPrivate: ['127.0.0.5/32'],
      names: { 'allowed.test': ['::1', '10.0.0.1', '127.0.0.5'] },
    });
    const client = await ask(opened.socketPath, `CONNECT allowed.test:${host.port} HTTP/1.1`);
    expect(client.said).toMatch(/the host$/);
  });
});

describe('a request that hides another', () => {
  /** A host that keeps what it was sent, word by word. */
  async function listener(): Promise<Awaited<ReturnType<typeof tcpHost>> & { heard: () => string }> {
    let heard = '';
    const host = await tcpHost((socket: Socket) => {
      socket.on('data', (chunk: Buffer) => {
        heard += chunk.toString('latin1');
        if (heard.includes('\r\n\r\n')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
      });
    });
    return { ...host, heard: () => heard };
  }
  const hidden = ['GET /stolen HTTP/1.1', 'Host: other.test', ''];

  it.each<[string, (host: string) => string[], number]>([
    ['a Host that is not the URL’s', (host) => [`GET http://${host}/ HTTP/1.1`, 'Host: other.test', ''], 400],
    ['two Hosts', (host) => [`GET http://${host}/ HTTP/1.1`, `Host: ${host}`, 'Host: other.test', ''], 400],
    ['no Host', (host) => [`GET http://${host}/ HTTP/1.0`, ''], 400],
    [
      'a user in the URL',
      (host) => [`GET http://allowed.test:80@${host}/ HTTP/1.1`, `Host: ${host}`, ''],
      400,
    ],
    ['a path alone', (host) => ['GET / HTTP/1.1', `Host: ${host}`, ''], 400],
    ['another scheme', (host) => [`GET ftp://${host}/ HTTP/1.1`, `Host: ${host}`, ''], 400],
    ['HTTPS in a plain request', (host) => [`GET https://${host}/ HTTP/1.1`, `Host: ${host}`, ''], 400],
    [
      'a GET with a body in chunks',
      (host) => [
        `GET http://${host}/ HTTP/1.1`,
        `Host: ${host}`,
        'Transfer-Encoding: chunked',
        '',
        hidden.join('\r\n').length.toString(16),
        ...hidden,
        '0',
        '',
      ],
      400,
    ],
    [
      'two lengths',
      (host) => [
        `POST http://${host}/ HTTP/1.1`,
        `Host: ${host}`,
        'Content-Length: 0',
        'Content-Length: 46',
        '',
        ...hidden,
      ],
      400,
    ],
    [
      'a length and chunks',
      (host) => [
        `POST http://${host}/ HTTP/1.1`,
        `Host: ${host}`,
        'Content-Length: 46',
        'Transfer-Encoding: chunked',
        '',
        '0',
        '',
        ...hidden,
      ],
      400,
    ],
    [
      'a coding that is not quite chunked',
      (host) => [
        `POST http://${host}/ HTTP/1.1`,
        `Host: ${host}`,
        'Transfer-Encoding: xchunked',
        '',
        '0',
        '',
        ...hidden,
      ],
      400,
    ],
  ])('by %s is refused before anybody is connected to', async (_what, lines, status) => {
    await using host = await listener();
    await using opened = await openProxy({ allow: [`allowed.test:${host.port}`], names });
    const client = await ask(opened.socketPath, ...lines(`allowed.test:${host.port}`));
    expect(client.status).toBe(status);
    expect(host.connections).toHaveLength(0);
    expect(opened.proxy.stats().allowed).toBe(0);
  });

  it.each<[string, string[]]>([
    ['behind its end', []],
    ['behind a body that is longer than it says', ['Content-Length: 2', '', 'ab']],
    ['behind a body in chunks', ['Transfer-Encoding: chunked', '', '2', 'ab', '0', '']],
  ])('%s sends the host only the first', async (_where, body) => {
    await using host = await listener();
    await using opened = await openProxy({ allow: [`allowed.test:${host.port}`], names });
    const where = `allowed.test:${host.port}`;
    const lines = [`POST http://${where}/ HTTP/1.1`, `Host: ${where}`, 'Connection: keep-alive'];
    const client = await ask(
      opened.socketPath,
      ...lines,
      ...(body.length > 0 ? body : ['Content-Length: 0', '']),
      ...hidden,
    );
    expect(client.status).toBe(200);
    expect(host.heard()).not.toContain('stolen');
    expect(host.connections).toHaveLength(1);
    expect(opened.proxy.stats().allowed).toBe(1);
  });

  it('in front of a CONNECT does not open it', async () => {
    await using host = await listener();
    await using opened = await openProxy({ allow: [`allowed.test:${host.port}`], names });
    const where = `allowed.test:${host.port}`;
    const get = [`GET http://${where}/ HTTP/1.1`, `Host: ${where}`, ''];
    const client = await ask(opened.socketPath, ...get, 'CONNECT other.test:443 HTTP/1.1');
    expect(client.said).not.toContain('Connection Established');
    expect(opened.proxy.stats().refusedHosts).toEqual({ 'other.test:443': 1 });
  });

  it('in its header lines does not split them', async () => {
    await using host = await httpHost((request, response) => response.end(JSON.stringify(request.headers)));
    const where = `allowed.test:${host.port}`;
    await using opened = await openProxy({ allow: [where], names });
    const client = await ask(
      opened.socketPath,
      `GET http://${where}/a%0d%0aX-Injected:%201 HTTP/1.1`,
      `Host: ${where}`,
      'Proxy-Authorization: Basic dTpw',
      'X-Odd: a\u0001b',
    );
    expect(client.said).not.toContain('x-injected');
    expect(client.said).not.toContain('proxy-authorization');
  });
});

describe('a client that does not behave', () => {
  it('is told that its headers are too large', async () => {
    await using opened = await openProxy({ names });
    const client = await ask(
      opened.socketPath,
      'CONNECT allowed.test:443 HTTP/1.1',
      `X: ${'x'.repeat(70_000)}`,
    );
    expect(client.status).toBe(431);
    const url = await ask(
      opened.socketPath,
      `GET http://allowed.test/${'x'.repeat(70_000)} HTTP/1.1`,
      'Host: allowed.test',
    );
    expect(url.status).toBe(431);
  });

  it('is sent away when its headers do not end', async () => {
    await using opened = await openProxy({ names, headerMs: 300 });
    await using slow = new Client(opened.socketPath).send('CONNECT allowed.test:443 HTTP/1.1');
    const drip = setInterval(() => slow.socket.write('X: y\r\n'), 20);
    await using silent = new Client(opened.socketPath);
    await Promise.all([slow.closed, silent.closed]);
    clearInterval(drip);
    expect(slow.status).toBe(408);
    expect(silent.status).toBe(408);
    await until(() => opened.proxy.stats().connections === 0, 'nothing is left');
  });

  it('that speaks something else than HTTP gets one answer and is cut', async () => {
    await using opened = await openProxy({ names });
    for (const words of [
      '\x16\x03\x01\x02\x00\x01',
      'SSH-2.0-OpenSSH\r\n',
      '\x05\x01\x00',
      'PRI * HTTP/2.0\r\n\r\nSM\r\n',
    ]) {
      const client = await ask(opened.socketPath, words);
      expect([0, 400]).toContain(client.status);
    }
    expect(opened.proxy.stats().allowed).toBe(0);
    await until(() => opened.proxy.stats().connections === 0, 'nothing is left');
  });

  it('that is gone before its host answers leaves no connection behind', async () => {
    const waiting: ((addresses: string[]) => void)[] = [];
    await using host = await tcpHost((socket) => socket.resume());
    await using opened = await openProxy({
      allow: [`allowed.test:${host.port}`],
      connectMs: 500,
      resolve: () => new Promise((resolve) => waiting.push(resolve)),
    });
    await using client = new Client(opened.socketPath).send(`CONNECT allowed.test:${host.port} HTTP/1.1`, '');
    await until(() => waiting.length === 1, 'the name is asked for');
    await client[Symbol.asyncDispose]();
    await until(() => opened.proxy.stats().connections === 0, 'it is noticed');
    waiting[0]!(['127.0.0.1']);
    const next = await ask(opened.socketPath, 'CONNECT other.test:443 HTTP/1.1');
    expect(next.status).toBe(403);
    expect(host.connections).toHaveLength(0);
  });

  it('is told when the name it asks for is never found', async () => {
    await using opened = await openProxy({
      allow: ['*.slow.test'],
      connectMs: 300,
      resolve: () => new Promise(() => undefined),
    });
    const stuck = await ask(opened.socketPath, 'CONNECT a.slow.test:443 HTTP/1.1');
    expect(stuck.said).toMatch(/^HTTP\/1\.1 504 a\.slow\.test:443 did not answer within 0\.3 s/);
  });
});

describe('a host that does not behave', () => {
  it('and never accepts is given up', async () => {
    // A process that stands still, so that the kernel has nowhere to put one more connection.
    const script = `const server = require('node:net').createServer();
      server.listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
        require('node:fs').writeSync(1, String(server.address().port));
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`;
    const still = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    const [port] = (await once(still.stdout, 'data')) as [Buffer];
    await using opened = await openProxy({ allow: [`allowed.test:${port}`], names, connectMs: 300 });
    const clients = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const client = new Client(opened.socketPath).send(`CONNECT allowed.test:${port} HTTP/1.1`, '');
        await until(() => client.status !== 0, 'it has an answer');
        return client;
      }),
    );
    const given = clients.filter((client) => client.status === 504);
    expect(given.length).toBeGreaterThan(0);
    expect(opened.proxy.stats()).toMatchObject({ allowed: 6, failed: given.length });
    await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
    still.kill('SIGKILL');
    await once(still, 'close');
  });

  it('and never answers is cut, with the reason where one can be told', async () => {
    await using host = await tcpHost((socket) => socket.resume().on('end', () => socket.end()));
    const where = `allowed.test:${host.port}`;
    await using opened = await openProxy({ allow: [where], names, idleMs: 300 });
    const plain = await ask(opened.socketPath, `GET http://${where}/ HTTP/1.1`, `Host: ${where}`);
    expect(plain.said).toMatch(/^HTTP\/1\.1 504 [^]*is connected and does not answer\n/);
    const tunnel = await ask(opened.socketPath, `CONNECT ${where} HTTP/1.1`);
    expect(tunnel.status).toBe(200);
    await until(() => host.connections.every((socket) => socket.destroyed), 'both are closed');
  });

  it('and resets is told from one that answers', async () => {
    await using host = await tcpHost((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const where = `allowed.test:${host.port}`;
    await using opened = await openProxy({ allow: [where], names });
    const plain = await ask(opened.socketPath, `GET http://${where}/ HTTP/1.1`, `Host: ${where}`);
    expect(plain.said).toMatch(/^HTTP\/1\.1 502 [^]*broke off before it answered\n/);
    await using tunnel = new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '', 'hello');
    await tunnel.closed;
    expect(tunnel.said).toMatch(/Connection Established\r\n\r\n$/);
  });

  it('and talks without end is cut when its time is up', async () => {
    await using host = await tcpHost((socket) => {
      const drip = setInterval(() => socket.write('x'), 20);
      socket.on('close', () => clearInterval(drip));
      socket.resume().on('end', () => socket.end());
    });
    const where = `allowed.test:${host.port}`;
    await using opened = await openProxy({ allow: [where], names, totalMs: 500 });
    const client = await ask(opened.socketPath, `CONNECT ${where} HTTP/1.1`);
    expect(client.said).toMatch(/xxx$/);
    await until(() => host.connections.every((socket) => socket.destroyed), 'the host’s end is closed too');
  });
});
