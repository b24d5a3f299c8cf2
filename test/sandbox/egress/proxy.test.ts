import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { connect as connectTls } from 'node:tls';
import { expect, test } from 'vitest';
import { until } from '../../support/wait.ts';
import { ask, Client, httpHost, httpsHost, openProxy, tcpHost } from './stage.ts';

const allowed = { 'allowed.test': ['127.0.0.1'] };

test('a plain request reaches a host of the list, and is counted', async () => {
  await using host = await httpHost((request, response) => {
    response.setHeader('x-saw', `${request.method} ${request.url} ${request.headers.host}`);
    void text(request).then((body) => response.end(`got ${body}`));
  });
  await using opened = await openProxy({ allow: [`allowed.test:${host.port}`], names: allowed });
  const where = `allowed.test:${host.port}`;
  const body = ['Content-Length: 5', '', 'hello'];
  const client = await ask(
    opened.socketPath,
    `POST http://${where}/a?b=c HTTP/1.1`,
    `Host: ${where}`,
    ...body,
  );
  expect(client.said).toContain(`x-saw: POST /a?b=c ${where}`);
  expect(client.said).toMatch(/\r\n\r\ngot hello$/);
  expect(opened.proxy.stats()).toMatchObject({ allowed: 1, refused: 0, failed: 0, refusedHosts: {} });
  expect(opened.proxy.stats().bytesSent).toBeGreaterThan(50);
  expect(opened.proxy.stats().bytesReceived).toBeGreaterThan(50);
});

test('a body in chunks arrives, and an answer in chunks comes back', async () => {
  await using host = await httpHost((request, response) => {
    response.write('one ');
    void text(request).then((body) => response.end(`${body.length}`));
  });
  const where = `allowed.test:${host.port}`;
  await using opened = await openProxy({ allow: [where], names: allowed });
  const chunks = ['Transfer-Encoding: chunked', '', '5', 'hello', '0', ''];
  const client = await ask(opened.socketPath, `PUT http://${where}/ HTTP/1.1`, `Host: ${where}`, ...chunks);
  expect(client.said).toMatch(/^HTTP\/1\.1 200 /);
  expect(client.said).toContain('one ');
  expect(client.said).toMatch(/\r\n5\r\n0\r\n\r\n$/);
});

test('HTTPS goes through a tunnel from end to end', async () => {
  await using host = await httpsHost('allowed.test', (_request, response) => response.end('secret'));
  const where = `allowed.test:${host.port}`;
  await using opened = await openProxy({ allow: [where], names: allowed });
  await using client = new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '');
  await until(() => client.said.endsWith('\r\n\r\n'), 'the tunnel stands');
  expect(client.status).toBe(200);
  client.socket.removeAllListeners('data');
  const tls = connectTls({ socket: client.socket, servername: 'allowed.test', ca: host.certificate });
  await once(tls, 'secureConnect');
  tls.end('GET / HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n');
  expect(await text(tls)).toContain('secret');
});

test('what a client sends behind its CONNECT at once is not lost', async () => {
  await using host = await tcpHost((socket) => socket.pipe(socket));
  const where = `allowed.test:${host.port}`;
  await using opened = await openProxy({ allow: [where], names: allowed });
  await using client = new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '', 'early');
  await until(() => client.said.endsWith('\r\n\r\nearly\r\n'), 'it came back');
});

test('each side of a tunnel may close its direction and still read', async () => {
  await using host = await tcpHost((socket) => {
    let heard = '';
    socket.on('data', (chunk: Buffer) => (heard += chunk.toString()));
    socket.on('end', () => socket.end(`heard ${heard.length}`));
  });
  const where = `allowed.test:${host.port}`;
  await using opened = await openProxy({ allow: [where], names: allowed });
  await using asking = new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '');
  asking.socket.end('x'.repeat(100_000));
  await asking.closed;
  expect(asking.said).toMatch(/\r\n\r\nheard 100000$/);

  let heard = '';
  await using closing = await tcpHost((socket) => {
    socket.end('that is all');
    socket.on('data', (chunk: Buffer) => (heard += chunk.toString()));
  });
  const second = `allowed.test:${closing.port}`;
  await using other = await openProxy({ allow: [second], names: allowed });
  await using client = new Client(other.socketPath);
  client.socket.removeAllListeners('end');
  client.send(`CONNECT ${second} HTTP/1.1`, '');
  await once(client.socket, 'end');
  expect(client.said).toMatch(/that is all$/);
  client.socket.end('y'.repeat(100_000));
  await until(() => heard.length === 100_000, 'all of it arrived');
});

test('a host that is not on the list is refused with its name and the reason, and is never looked up', async () => {
  await using opened = await openProxy({ names: allowed });
  const { socketPath } = opened;
  const tunnel = await ask(socketPath, 'CONNECT secret-in-a-name.evil.test:443 HTTP/1.1');
  expect(tunnel.said).toMatch(/^HTTP\/1\.1 403 secret-in-a-name\.evil\.test:443 is not on the list/);
  const plain = await ask(socketPath, 'GET http://evil.test/ HTTP/1.1', 'Host: evil.test');
  expect(plain.said).toMatch(
    /\r\n\r\nrollpool: evil\.test:80 is not on the list of hosts that .* may reach\n$/,
  );
  const port = await ask(socketPath, 'CONNECT allowed.test:22 HTTP/1.1');
  expect(port.said).toMatch(/^HTTP\/1\.1 403 allowed\.test:22 with this port is not on the list/);
  expect(opened.asked).toEqual([]);
  expect(opened.proxy.stats()).toMatchObject({
    allowed: 0,
    refused: 3,
    refusedHosts: { 'secret-in-a-name.evil.test:443': 1, 'evil.test:80': 1, 'allowed.test:22': 1 },
  });
});

test('a name is taken in any case, with a dot at its end or in Unicode', async () => {
  await using host = await httpHost((_request, response) => response.end('here'));
  const names = { 'xn--bcher-kva.test': ['127.0.0.1'], 'a.b.sub.test': ['127.0.0.1'] };
  const allow = [`BÜCHER.test.:${host.port}`, `*.Sub.test:${host.port}`];
  await using opened = await openProxy({ allow, names });
  for (const name of ['xn--bcher-kva.TEST', 'XN--BCHER-KVA.test.', 'A.b.Sub.Test']) {
    const where = `${name}:${host.port}`;
    const client = await ask(opened.socketPath, `GET http://${where}/ HTTP/1.1`, `Host: ${where}`);
    expect(client.status, name).toBe(200);
  }
  const apex = await ask(opened.socketPath, `CONNECT sub.test:${host.port} HTTP/1.1`);
  expect(apex.status).toBe(403);
});

test('a host without an answer is told from one that may not be reached', async () => {
  await using host = await tcpHost(() => undefined);
  const { port } = host;
  await host[Symbol.asyncDispose]();
  const allow = [`allowed.test:${port}`, 'unknown.test'];
  await using opened = await openProxy({ allow, names: allowed });
  const refused = await ask(opened.socketPath, `CONNECT allowed.test:${port} HTTP/1.1`);
  expect(refused.said).toMatch(/^HTTP\/1\.1 502 allowed\.test:\d+ cannot be reached \(ECONNREFUSED\)/);
  const unknown = await ask(opened.socketPath, 'CONNECT unknown.test:443 HTTP/1.1');
  expect(unknown.said).toMatch(/^HTTP\/1\.1 502 the name unknown\.test is not known \(ENOTFOUND\)/);
  expect(opened.proxy.stats()).toMatchObject({ allowed: 2, failed: 2, refused: 0 });
});

test('the next address of a name is tried when the first does not answer', async () => {
  await using host = await tcpHost((socket) => socket.end('hello'), '127.0.0.3');
  const where = `allowed.test:${host.port}`;
  const names = { 'allowed.test': ['127.0.0.2', '127.0.0.3'] };
  await using opened = await openProxy({ allow: [where], names });
  const client = await ask(opened.socketPath, `CONNECT ${where} HTTP/1.1`);
  expect(client.said).toMatch(/hello$/);
});

test('a hundred connections at once are carried, and one too many is told so', async () => {
  await using host = await tcpHost((socket) => socket.pipe(socket));
  const where = `allowed.test:${host.port}`;
  await using opened = await openProxy({ allow: [where], names: allowed, maxConnections: 100 });
  const clients = Array.from({ length: 100 }, (_, index) =>
    new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '', `I am ${index}.`),
  );
  await until(
    () => clients.every((client, index) => client.said.endsWith(`I am ${index}.\r\n`)),
    'all are served',
  );
  const more = await ask(opened.socketPath, `CONNECT ${where} HTTP/1.1`);
  expect(more.said).toMatch(/^HTTP\/1\.1 503 this sandbox has 100 connections open already/);
  expect(opened.proxy.stats()).toMatchObject({ connections: 100, allowed: 100 });
  await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  await until(() => opened.proxy.stats().connections === 0, 'all are gone');
  await until(() => host.connections.every((socket) => socket.destroyed), 'the host has none left either');
});

test('disposing the proxy cuts everything that goes through it', async () => {
  await using host = await tcpHost((socket) => socket.pipe(socket));
  const where = `allowed.test:${host.port}`;
  const opened = await openProxy({ allow: [where, 'hangs.test'], names: allowed });
  await using client = new Client(opened.socketPath).send(`CONNECT ${where} HTTP/1.1`, '', 'x');
  await until(() => client.said.endsWith('x\r\n'), 'it is open');
  await opened[Symbol.asyncDispose]();
  await client.closed;
  await until(() => host.connections.every((socket) => socket.destroyed), 'the host knows');
  await opened[Symbol.asyncDispose]();
});
