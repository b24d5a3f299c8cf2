import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { failureOf } from '../../support/failure-of.ts';
import { until } from '../../support/wait.ts';
import { bytesOf, exchange, listen, setStage, type Stage } from './stage.ts';

/** Echoes, but for connections that begin with `hold` (reads nothing more) or `answer` (says `done` and closes). */
function serve(socket: Socket): void {
  socket.once('data', (first: Buffer) => {
    const word = first.toString('latin1', 0, 6);
    if (word.startsWith('hold')) socket.pause();
    else if (word === 'answer') socket.end('done');
    else {
      socket.write(first);
      socket.pipe(socket);
    }
  });
  socket.once('end', () => socket.end());
}

/** Ids of the relays that run for this stage. */
function relays(stage: Stage): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
        return line.includes(`${stage.directory}/relay/relay.py\0daemon`);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** A connection that is open and has brought its first bytes over. */
async function opened(path: string, first = 'hello'): Promise<Socket & { said: () => string }> {
  const socket = connect({ path, allowHalfOpen: true });
  let said = '';
  socket.on('error', () => undefined);
  socket.on('data', (chunk: Buffer) => (said += chunk.toString('latin1')));
  socket.write(first);
  await until(() => said === first, 'it is answered');
  return Object.assign(socket, { said: () => said });
}

async function closed(socket: Socket): Promise<void> {
  await until(() => socket.closed || socket.readableEnded, 'the connection is closed');
  socket.destroy();
}

describe('a tunnel', () => {
  let stage: Stage;
  beforeEach(async () => {
    stage = await setStage(serve);
  });
  afterEach(async () => {
    await until(() => relays(stage).length === 0, 'no relay is left');
    await stage[Symbol.asyncDispose]();
  });

  test('goes on where it was when its command is killed in the middle of an answer', async () => {
    await using tunnel = await stage.open();
    const sent = bytesOf(3_000_000);
    const answer = exchange(stage.inside, sent);
    await until(() => tunnel.stats().bytes_out > 200_000, 'the answer is on its way');
    await stage.host.attached.at(-1)?.kill();
    expect((await answer).equals(sent)).toBe(true);
    expect(tunnel.stats()).toMatchObject({ reopened: 1, restarted: 0, streams: 1 });
    expect(tunnel.state).toBe('open');
  });

  test('resets its connections when the relay was killed, and carries new ones by another', async () => {
    await using tunnel = await stage.open();
    const lasting = await opened(stage.inside);
    for (const pid of relays(stage)) process.kill(pid, 'SIGKILL');
    await closed(lasting);
    await until(() => tunnel.stats().restarted === 1, 'another relay runs');
    expect((await exchange(stage.inside, Buffer.from('again'))).toString()).toBe('again');
    expect(tunnel.lost.aborted).toBe(false);
    await until(() => tunnel.stats().open_streams === 0, 'the old connections are forgotten');
  });

  test('leaves nothing behind when it is closed', async () => {
    const tunnel = await stage.open();
    const lasting = await opened(stage.inside);
    await tunnel[Symbol.asyncDispose]();
    await closed(lasting);
    await until(() => relays(stage).length === 0, 'the relay has ended');
    expect(existsSync(stage.inside)).toBe(false);
    expect(existsSync(join(stage.directory, 'relay'))).toBe(false);
    expect(tunnel.state).toBe('closed');
  });

  test('ends inside when nobody attaches any more', async () => {
    const tunnel = await stage.open({ lingerSeconds: 1, reopenMs: 1 });
    stage.host.between = () => {
      throw new Error('no command starts');
    };
    await stage.host.attached.at(-1)?.kill();
    await until(() => tunnel.state === 'lost', 'the tunnel is lost');
    await until(() => relays(stage).length === 0, 'the relay has ended');
    expect(existsSync(stage.inside)).toBe(false);
    await tunnel[Symbol.asyncDispose]();
  });

  test('is lost, with a reason, when it cannot be opened again in time', async () => {
    await using tunnel = await stage.open({ lingerSeconds: 1, reopenMs: 500 });
    const lasting = await opened(stage.inside);
    stage.host.between = () => {
      throw new Error('no command starts');
    };
    await stage.host.attached.at(-1)?.kill();
    await until(() => tunnel.lost.aborted, 'it is lost');
    expect(tunnel.state).toBe('lost');
    expect(tunnel.lost.reason).toMatchObject({
      failure: { class: 'infra', code: 'tunnel_lost', retryable: true },
    });
    expect(String(tunnel.lost.reason)).toContain('no command starts');
    await closed(lasting);
  });

  test('gives a silent channel up and opens another', async () => {
    await using tunnel = await stage.open({ pingMs: 100, silenceMs: 400 });
    const before = stage.host.attached.length;
    // The next channel takes everything and says nothing once it is open.
    let deaf = true;
    stage.host.between = (process) => {
      const stdout = new PassThrough();
      process.stdout.on('data', (chunk: Buffer) => {
        if (!deaf || stage.host.attached.length > before + 1) stdout.write(chunk);
        else if (stdout.readableLength === 0) stdout.write(chunk);
      });
      return { ...process, stdout };
    };
    deaf = false;
    await stage.host.attached.at(-1)?.kill();
    await until(() => tunnel.stats().reopened === 1, 'the second is open');
    deaf = true;
    stage.host.between = (process) => process;
    process.kill(relays(stage)[0] ?? 0, 'SIGSTOP');
    await until(() => tunnel.state === 'reopening', 'its silence is noticed');
    process.kill(relays(stage)[0] ?? 0, 'SIGCONT');
    await until(() => tunnel.stats().reopened === 2, 'another is open');
    expect((await exchange(stage.inside, Buffer.from('still here'))).toString()).toBe('still here');
  });

  test('lets a connection nobody reads hold up no other, nor grow', async () => {
    await using tunnel = await stage.open();
    const stuck = connect(stage.inside);
    stuck.on('error', () => undefined);
    stuck.write('hold');
    const more = bytesOf(64 * 1024);
    let taken = 0;
    const flood = new Writable({
      write: (chunk: Buffer, _encoding, done) => stuck.write(chunk, () => done()),
    });
    const pour = (): void => {
      while (taken < 64 * 2 ** 20 && flood.write(more)) taken += more.length;
    };
    flood.on('drain', pour);
    pour();
    await until(() => stuck.writableNeedDrain, 'it is held back');
    // An answer nobody reads.
    const unread = connect(stage.inside);
    unread.on('error', () => undefined);
    unread.pause();
    unread.write(bytesOf(4 * 2 ** 20));
    const sent = bytesOf(500_000);
    for (let round = 0; round < 3; round++) {
      expect((await exchange(stage.inside, sent)).equals(sent)).toBe(true);
    }
    const memory = Number(
      /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${relays(stage)[0]}/status`, 'utf8'))?.[1],
    );
    expect(memory).toBeLessThan(40_000);
    expect(tunnel.stats().bytes_in).toBeLessThan(8 * 2 ** 20);
    stuck.destroy();
    unread.destroy();
    flood.destroy();
  });

  test('carries 200 exchanges at once', async () => {
    await using tunnel = await stage.open();
    const answers = await Promise.all(
      Array.from({ length: 200 }, async (_none, index) => {
        const sent = bytesOf(1 + index * 400);
        return (await exchange(stage.inside, sent)).equals(sent);
      }),
    );
    expect(answers.every(Boolean)).toBe(true);
    expect(tunnel.stats()).toMatchObject({ streams: 200 });
  });

  test('takes more connections than it may have open one after another', async () => {
    await using tunnel = await stage.open();
    const flood = Array.from({ length: 600 }, () => connect(stage.inside));
    for (const socket of flood) socket.on('error', () => undefined);
    await until(() => tunnel.stats().open_streams >= 256, 'all places are taken');
    const late = exchange(stage.inside, Buffer.from('late'));
    expect(tunnel.stats().open_streams).toBe(256);
    for (const socket of flood) socket.destroy();
    expect((await late).toString()).toBe('late');
    await until(() => tunnel.stats().open_streams === 0, 'all are gone');
  });

  test('closes a control connection that brings anything but two streams and a marker', async () => {
    await using tunnel = await stage.open();
    for (const garbage of [Buffer.from('x'), bytesOf(64), bytesOf(100_000)]) {
      const socket = connect(join(stage.directory, 'relay', 'control'));
      socket.on('error', () => undefined);
      socket.write(garbage);
      await closed(socket);
    }
    expect((await exchange(stage.inside, Buffer.from('fine'))).toString()).toBe('fine');
    expect(tunnel.stats()).toMatchObject({ reopened: 0, restarted: 0 });
  });

  test('passes the end of either direction on alone', async () => {
    await using _tunnel = await stage.open();
    expect((await exchange(stage.inside, Buffer.from('answer'))).toString()).toBe('done');
    const half = await opened(stage.inside);
    half.end(' and bye');
    await until(() => half.readableEnded, 'the other direction ends too');
    expect(half.said()).toBe('hello and bye');
  });

  test('brings a whole answer over that was given before the request was read', async () => {
    const early = join(stage.directory, 'early.sock');
    const answer = bytesOf(20_000);
    await using _server = await listen(early, (socket) => {
      socket.once('data', () => {
        socket.pause();
        socket.end(answer, () => socket.destroy());
      });
    });
    await using _tunnel = await stage.open({
      routes: [{ name: 'gateway', listen: { unix: stage.inside }, target: early }],
    });
    const socket = connect({ path: stage.inside, allowHalfOpen: true });
    const came: Buffer[] = [];
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => came.push(chunk));
    socket.write(bytesOf(3_000_000));
    await closed(socket);
    expect(Buffer.concat(came).equals(answer)).toBe(true);
  });

  test('breaks the connection to the target when the one inside was closed', async () => {
    await using tunnel = await stage.open();
    const socket = await opened(stage.inside);
    socket.destroy();
    await until(() => tunnel.stats().open_streams === 0, 'it is closed here too');
  });

  test('leads to a port too, and to another target once it is told', async () => {
    const other = join(stage.directory, 'other.sock');
    await using _server = await listen(other, (socket) => socket.end('the other'));
    const port = 20_000 + (process.pid % 10_000);
    await using tunnel = await stage.open({
      routes: [
        { name: 'gateway', listen: { unix: stage.inside, mode: 0o600 }, target: null },
        { name: 'proxy', listen: { tcp: port }, target: other },
      ],
    });
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    let came = '';
    socket.on('data', (chunk: Buffer) => (came += chunk.toString()));
    await until(() => socket.readableEnded, 'the port is answered');
    expect(came).toBe('the other');
    socket.destroy();
    const refused = connect(stage.inside);
    refused.on('error', () => undefined);
    await closed(refused);
    tunnel.setTarget('gateway', other);
    expect((await exchange(stage.inside, Buffer.alloc(0))).toString()).toBe('the other');
    expect(() => tunnel.setTarget('nobody', other)).toThrow(RangeError);
  });

  test('needs python3, and says so', async () => {
    const bare = {
      ...stage.host,
      exec: stage.host.exec.bind(stage.host),
      spawn: stage.host.spawn.bind(stage.host),
    };
    const exec: typeof bare.exec = async ([, ...words], options) =>
      stage.host.exec(['/usr/bin/env', 'PATH=/nonexistent', '/bin/bash', ...words], options);
    const failure = await failureOf(stage.open({ host: { ...bare, exec } }));
    expect(failure).toMatchObject({ class: 'task', code: 'no_python' });
    expect(failure.message).toContain('python3');
  });

  test('says where it cannot listen', async () => {
    const failure = await failureOf(
      stage.open({ routes: [{ name: 'gateway', listen: { unix: '/proc/none/gw.sock' }, target: null }] }),
    );
    expect(failure).toMatchObject({ class: 'infra', code: 'tunnel_failed' });
    expect(failure.message).toContain('cannot listen');
  });

  test('is not opened when the episode was cancelled', async () => {
    const reason = new Error('cancelled by test');
    await expect(stage.open({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
  });
});
