import { CommandExitError, TimeoutError, type CommandHandle, type Sandbox } from 'e2b';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../support/wait.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { createSandbox, errorOf } from './fixture.ts';
import { openE2bDouble, type E2bDouble } from './open-e2b-double.ts';

describe.skipIf(!haveDocker)('commands and files in a sandbox of the double, by the SDK', () => {
  let double: E2bDouble;
  let sandbox: Sandbox;

  beforeAll(async () => {
    double = await openE2bDouble();
    sandbox = await createSandbox(double, { envs: { COLOUR: 'green' } });
  });

  afterAll(async () => {
    await double[Symbol.asyncDispose]();
  });

  const run = async (command: string, options: object = {}) =>
    (await sandbox.commands.run(command, options)).stdout.trim();

  test('a command runs as `user` in its home, with the variables of the creation and its own', async () => {
    const out = await run('echo "$(id -un) $(id -u) $PWD $COLOUR $SIZE $E2B_SANDBOX_ID"', {
      envs: { SIZE: 'big' },
    });
    expect(out).toBe(`user 1000 /home/user green big ${sandbox.sandboxId}`);
  });

  test('`user` becomes root without a password, and `root` can be asked for', async () => {
    expect(await run('sudo id -un')).toBe('root');
    expect(await run('id -un', { user: 'root' })).toBe('root');
    expect(String(await errorOf(sandbox.commands.run('true', { user: 'nobody-known' })))).toContain(
      'invalid username',
    );
  });

  test('a non-zero exit is an error that carries the code and the output', async () => {
    const error = await errorOf(sandbox.commands.run('echo out; echo err >&2; exit 7'));
    expect(error).toBeInstanceOf(CommandExitError);
    expect(error).toMatchObject({ exitCode: 7, stdout: 'out\n', stderr: 'err\n' });
  });

  test('a directory that is not there is an invalid argument', async () => {
    expect(String(await errorOf(sandbox.commands.run('true', { cwd: '/nowhere' })))).toContain(
      "cwd '/nowhere' does not exist",
    );
  });

  test('stdin is /dev/null unless it was asked for, and then it is fed and closed', async () => {
    expect(await run('readlink /proc/self/fd/0')).toBe('/dev/null');
    const handle = await sandbox.commands.run('cat', { background: true, stdin: true });
    await handle.sendStdin('one ');
    await handle.sendStdin('two');
    await handle.closeStdin();
    expect((await handle.wait()).stdout).toBe('one two');
  });

  test('megabytes of output arrive whole', async () => {
    const result = await sandbox.commands.run('head -c 3000000 /dev/zero | tr "\\0" x');
    expect(result.stdout).toHaveLength(3_000_000);
  });

  test('a kill reaches the process alone: its child lives on', async () => {
    const handle = await sandbox.commands.run('sleep 4321 & echo $!; wait', { background: true });
    await until(() => handle.stdout.includes('\n'), 'the child is named');
    const child = handle.stdout.trim();
    expect(await handle.kill()).toBe(true);
    const error = await errorOf(handle.wait());
    expect(error).toMatchObject({ exitCode: -1 });
    expect(await run(`kill -0 ${child} && echo alive`)).toBe('alive');
    await run(`kill ${child}`);
    expect(await sandbox.commands.kill(handle.pid)).toBe(false);
  });

  test('past its timeout a command is killed, and the client is told of the deadline', async () => {
    const error = await errorOf(sandbox.commands.run('exec sleep 8642', { timeoutMs: 300 }));
    expect(error).toBeInstanceOf(TimeoutError);
    await until(
      async () => !(await run('cat /proc/[0-9]*/cmdline 2>/dev/null | tr -d "\\0"')).includes('sleep8642'),
      'the command is gone',
    );
  });

  test('whoever leaves a stream leaves the command running, and sees only new output when back', async () => {
    const handle = await sandbox.commands.run('read a; echo first; read b; echo second; read c', {
      background: true,
      stdin: true,
      timeoutMs: 0,
    });
    await handle.sendStdin('\n');
    await until(() => handle.stdout.includes('first'), 'the first line');
    await handle.disconnect();
    const again: CommandHandle = await sandbox.commands.connect(handle.pid, { timeoutMs: 0 });
    await again.sendStdin('\n');
    await until(() => again.stdout.includes('second'), 'the second line');
    expect(again.stdout).toBe('second\n');
    await again.sendStdin('\n');
    expect((await again.wait()).exitCode).toBe(0);
    const late = await sandbox.commands.connect(handle.pid);
    expect((await late.wait()).stdout).toBe('');
    expect(String(await errorOf(sandbox.commands.connect(99_999)))).toContain('not found');
  });

  test('running commands are listed with what they are', async () => {
    const handle = await sandbox.commands.run('sleep 1234', { background: true, envs: { A: 'b' } });
    const found = (await sandbox.commands.list()).find(({ pid }) => pid === handle.pid);
    expect(found).toMatchObject({ cmd: '/bin/bash', args: ['-l', '-c', 'sleep 1234'], envs: { A: 'b' } });
    await handle.kill();
    await errorOf(handle.wait());
  });

  test('files are written with their directories, owned by their user, and read back', async () => {
    await sandbox.files.write([
      { path: 'deep/er/a.txt', data: 'text' },
      { path: '/home/user/b "q".bin', data: new Uint8Array([0, 255, 13, 10]).buffer },
    ]);
    await sandbox.files.write('/srv/root.txt', 'r', { user: 'root' });
    await sandbox.files.write('/home/user/streamed', new Blob(['s'.repeat(200_000)]).stream());
    await sandbox.files.write('/home/user/zipped', 'z'.repeat(1000), { gzip: true });
    expect(await run('stat -c %U deep deep/er/a.txt /srv/root.txt | tr "\\n" " "')).toBe('user user root');
    expect(await sandbox.files.read('deep/er/a.txt')).toBe('text');
    const bytes = await sandbox.files.read('/home/user/b "q".bin', { format: 'bytes' });
    expect([...bytes]).toEqual([0, 255, 13, 10]);
    expect(await run('wc -c < streamed; wc -c < zipped')).toBe('200000\n1000');
    expect(String(await errorOf(sandbox.files.read('/none')))).toContain("'/none' does not exist");
    const signed = await sandbox.downloadUrl('/srv/root.txt', { user: 'root' });
    const headers = { 'e2b-sandbox-id': sandbox.sandboxId };
    const fetched = (path: string) => fetch(double.sandboxUrl + path, { headers });
    expect((await fetched('/files?path=/srv/root.txt')).status).toBe(401);
    const { pathname, search } = new URL(signed);
    expect(await (await fetched(pathname + search)).text()).toBe('r');
  });

  test('directories are made, listed, moved and removed', async () => {
    expect(await sandbox.files.makeDir('box')).toBe(true);
    expect(await sandbox.files.makeDir('box')).toBe(false);
    await sandbox.files.write('box/x', '12345');
    await run('ln -s x box/link');
    const entries = await sandbox.files.list('box');
    expect(entries.map(({ name, type, size, owner }) => [name, type, size, owner])).toEqual([
      ['link', 'symlink', 1, 'user'],
      ['x', 'file', 5, 'user'],
    ]);
    expect((await sandbox.files.rename('box/x', 'y')).path).toBe('/home/user/y');
    expect(await sandbox.files.exists('box/x')).toBe(false);
    await sandbox.files.remove('box');
    expect(await sandbox.files.exists('box')).toBe(false);
  });

  test('there is a loopback interface and no network', async () => {
    expect(await run('ls /sys/class/net')).toBe('lo');
  });
});
