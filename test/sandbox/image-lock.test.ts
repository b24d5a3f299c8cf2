import { spawn } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { lockOnHost, removeStaleLocks } from '../../src/sandbox/docker/images/host-lock.ts';
import { isReference, parseReference } from '../../src/sandbox/docker/images/image-reference.ts';
import { SharedWork } from '../../src/sandbox/docker/images/shared-work.ts';

describe('the lock of an image', () => {
  let directory: string;
  let waited = 0;
  const lock = (signal = new AbortController().signal) =>
    lockOnHost({ directory, name: 'an image', onWait: () => void (waited += 1), signal });

  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rp-lock-${process.pid}-`));
  });
  beforeEach(() => void (waited = 0));
  afterAll(async () => {
    expect(await readdir(directory)).toEqual([]);
    await rm(directory, { recursive: true });
  });

  test('is held by one at a time', async () => {
    let holders = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        await using _held = await lock();
        most = Math.max(most, (holders += 1));
        await new Promise((resolve) => setImmediate(resolve));
        holders -= 1;
      }),
    );
    expect(most).toBe(1);
    expect(await readdir(directory)).toEqual([]);
  });

  test('is waited for no longer than its signal allows', async () => {
    await using _held = await lock();
    const controller = new AbortController();
    const waiting = lock(controller.signal);
    waiting.catch(() => undefined);
    await expect.poll(() => waited).toBe(1);
    controller.abort(new Error('cancelled by test'));
    await expect(waiting).rejects.toThrow('cancelled by test');
  });

  test('of a killed process is taken over at once, and swept', async () => {
    const script = `
      import { lockOnHost } from './src/sandbox/docker/images/host-lock.ts';
      await lockOnHost({ directory: process.argv[1], name: 'an image', signal: new AbortController().signal });
      console.log('held');
      setInterval(() => {}, 1000);`;
    const holder = spawn(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '-e', script, directory],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const gone = new Promise((resolve) => holder.once('exit', resolve));
    await new Promise((resolve) => holder.stdout.once('data', resolve));
    await removeStaleLocks(directory);
    const [name] = await readdir(directory);
    expect(name).toMatch(/^rollpool-image-\d+-[0-9a-f]{16}\.lock$/);
    const text = await readFile(join(directory, name!), 'utf8');
    holder.kill('SIGKILL');
    await gone;
    await (await lock())[Symbol.asyncDispose]();
    expect(waited).toBe(0);

    await writeFile(join(directory, name!), text);
    await removeStaleLocks(directory);
    expect(await readdir(directory)).toEqual([]);
  });
});

describe('work that many ask for', () => {
  test('is done once, goes on while somebody waits, and is given up when nobody does', async () => {
    const work = new SharedWork();
    const signals: AbortSignal[] = [];
    let finish = (): void => undefined;
    const begin = (signal: AbortSignal): Promise<void> => {
      signals.push(signal);
      return new Promise((resolve, reject) => {
        finish = resolve;
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    };
    const leaving = new AbortController();
    const stays = work.join('a', begin, new AbortController().signal);
    const leaves = work.join('a', begin, leaving.signal);
    leaving.abort(new Error('left'));
    await expect(leaves).rejects.toThrow('left');
    finish();
    await stays;
    expect(signals).toHaveLength(1);

    const alone = new AbortController();
    const given = work.join('a', begin, alone.signal);
    alone.abort(new Error('left'));
    await expect(given).rejects.toThrow('left');
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    await work.stop();
  });
});

describe('the name of an image', () => {
  test.each([
    ['python', 'python', 'latest', 'https://index.docker.io/v1/'],
    ['python:3.11', 'python', '3.11', 'https://index.docker.io/v1/'],
    ['docker.io/library/python:3', 'docker.io/library/python', '3', 'https://index.docker.io/v1/'],
    ['ghcr.io/a/b:c', 'ghcr.io/a/b', 'c', 'ghcr.io'],
    ['localhost/a', 'localhost/a', 'latest', 'localhost'],
    ['host:5000/a', 'host:5000/a', 'latest', 'host:5000'],
    [`a/b@sha256:${'0'.repeat(64)}`, 'a/b', `sha256:${'0'.repeat(64)}`, 'https://index.docker.io/v1/'],
  ])('%s is read as Docker reads it', (text, repository, tag, registry) => {
    expect(isReference(text)).toBe(true);
    expect(parseReference(text)).toEqual({ repository, tag, registry });
  });

  test.each(['', 'A', 'a b', '../x', 'a/../b', 'a:', 'a:b:c', '-a', 'http://a/b', 'a//b', 'a?x=1', 'a#b'])(
    '%j is none',
    (text) => expect(isReference(text)).toBe(false),
  );
});
