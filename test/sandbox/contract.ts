import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { EpisodeError } from '../../src/contracts/index.ts';
import type { Sandbox, SandboxProvider, SandboxUser } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import {
  countProcesses,
  greeting,
  openGateway,
  reapFilter,
  requestOf,
  testPool,
  uniqueSleep,
} from './fixture.ts';

export interface ContractSubject {
  readonly create: () => SandboxProvider;
  /** Whether an agent's process is found whatever it did to itself. */
  readonly surelyFound: boolean;
  /** Removes the sandbox behind the provider's back. */
  readonly vanish: (sandbox: Sandbox) => Promise<void>;
  /** What is left of sandboxes of the test's pool. */
  readonly leftovers: () => Promise<readonly string[]>;
}

/** What every provider must do. One suite, so that episodes need not care which one they run on. */
export function sandboxContract(name: string, subject: ContractSubject): void {
  describe(`a ${name} sandbox`, () => {
    let gateway: Awaited<ReturnType<typeof openGateway>>;
    let provider: SandboxProvider;
    let shared: Sandbox;
    const create = (overrides?: Parameters<typeof requestOf>[1]): Promise<Sandbox> =>
      provider.create(requestOf(gateway.directory, overrides));
    const run = (command: string, user: SandboxUser = 'agent', timeout_ms = 30_000) =>
      shared.exec(command, { user, timeout_ms });

    beforeAll(async () => {
      gateway = await openGateway();
      provider = subject.create();
      await provider.probe();
      shared = await create();
    });
    afterAll(async () => {
      await shared[Symbol.asyncDispose]();
      expect(await subject.leftovers()).toEqual([]);
      await provider[Symbol.asyncDispose]();
      await gateway[Symbol.asyncDispose]();
    });

    test('tells output, errors and exit codes apart', async () => {
      expect(await run('echo out; echo err >&2; exit 3')).toEqual({
        exit_code: 3,
        timed_out: false,
        stdout: 'out\n',
        stderr: 'err\n',
        stdout_bytes: 4,
        stderr_bytes: 4,
      });
      expect((await run('kill -TERM $$')).exit_code).toBe(143);
      expect((await run('no-such-program')).exit_code).toBe(127);
      expect((await shared.exec(['no-such-program'], { timeout_ms: 30_000 })).exit_code).toBe(127);
    });

    test('takes a list of words as it stands', async () => {
      const found = await shared.exec(['printf', '[%s]', 'a b', '$HOME', ';id', ''], { timeout_ms: 30_000 });
      expect(found.stdout).toBe('[a b][$HOME][;id][]');
    });

    test('runs no start-up file of a shell', async () => {
      const planted = 'echo planted';
      await shared.upload(
        { '.bashrc': planted, '.profile': planted, '.bash_profile': planted },
        { base: shared.agent_home },
      );
      expect((await run('echo only this')).stdout).toBe('only this\n');
    });

    test('gives standard input, binary too, and its end', async () => {
      const bytes = Uint8Array.from({ length: 100_000 }, (_zero, index) => index % 256);
      const found = await shared.exec('wc -c; echo done', { stdin: bytes, timeout_ms: 30_000 });
      expect(found.stdout).toBe('100000\ndone\n');
      expect((await shared.exec('cat; echo done', { timeout_ms: 30_000 })).stdout).toBe('done\n');
      // Input that is never read breaks nothing.
      expect((await shared.exec('exit 4', { stdin: bytes, timeout_ms: 30_000 })).exit_code).toBe(4);
    });

    test('keeps the last bytes of 200 KB of output and counts them all', async () => {
      const found = await shared.exec('for i in {1..40000}; do echo "line"; done; echo "last é"', {
        max_output_bytes: 1_000,
        timeout_ms: 60_000,
      });
      expect(found.stdout_bytes).toBe(200_008);
      expect(Buffer.byteLength(found.stdout)).toBe(1_000);
      expect(found.stdout.endsWith('line\nlast é\n')).toBe(true);
    });

    test('gives a command its own environment and nothing of the worker', async () => {
      process.env['ROLLPOOL_TEST_SECRET'] = 'do-not-leak';
      try {
        const found = await shared.exec('env -0', {
          user: 'agent',
          env: { GIVEN: 'a=b\nc' },
          timeout_ms: 30_000,
        });
        const items = found.stdout.split('\0');
        expect(items).toContain('GIVEN=a=b\nc');
        expect(items).toContain(`HOME=${shared.agent_home}`);
        expect(items).toContain('LANG=C.UTF-8');
        const known =
          /^(PATH|HOME|LANG|USER|LOGNAME|SHELL|SHLVL|PWD|HOSTNAME|TMPDIR|_|GIVEN|ROLLPOOL_EXEC|ROLLPOOL_SANDBOX|CLAUDE_CODE_TMPDIR|)$/;
        expect(items.map((item) => item.split('=')[0]).filter((item) => !known.test(item ?? ''))).toEqual([]);
        const everywhere = await run(
          'cat /proc/self/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -c do-not-lea[k]',
        );
        expect(everywhere.stdout).toBe('0\n');
      } finally {
        delete process.env['ROLLPOOL_TEST_SECRET'];
      }
    });

    test('lets the agent write in its working directory and its home, and reach the gateway', async () => {
      const found = await run(
        `pwd -P; touch mine "$HOME/mine" /tmp/rp-agent-was-here && rm /tmp/rp-agent-was-here && echo written
         python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); print(s.recv(100).decode(), end="")' ${shared.gateway_socket}`,
      );
      expect(found.stderr).toBe('');
      expect(found.stdout).toBe(`${shared.workdir}\nwritten\n${greeting}`);
    });

    test('kills the whole tree of a command at its deadline', async () => {
      const sleep = uniqueSleep();
      const tree = `sleep ${sleep} & setsid sleep ${sleep} & (setsid sleep ${sleep} &) ; trap '' TERM HUP; echo up; sleep ${sleep}`;
      for (const user of ['agent', 'grader', 'root'] as const) {
        const found = await run(tree, user, 700);
        expect(found).toMatchObject({ exit_code: null, timed_out: true, stdout: 'up\n' });
        expect(await countProcesses(shared, sleep)).toBe(0);
      }
    });

    test('leaves what another command started alone when it kills one', async () => {
      const sleep = uniqueSleep();
      await using other = await shared.spawn(['sleep', sleep], { user: 'agent' });
      expect((await run('sleep 300', 'agent', 300)).timed_out).toBe(true);
      expect(await countProcesses(shared, sleep)).toBe(1);
      await other.kill();
      expect(await countProcesses(shared, sleep)).toBe(0);
    });

    test('kills a command when its signal aborts, and rejects with the reason', async () => {
      const sleep = uniqueSleep();
      const controller = new AbortController();
      const reason = new Error('cancelled by test');
      const running = shared.exec(`(setsid sleep ${sleep} &); sleep ${sleep}`, {
        user: 'agent',
        timeout_ms: 60_000,
        signal: controller.signal,
      });
      running.catch(() => undefined);
      await until(async () => (await countProcesses(shared, sleep)) >= 2, 'the command runs');
      controller.abort(reason);
      await expect(running).rejects.toBe(reason);
      expect(await countProcesses(shared, sleep)).toBe(0);
      await expect(shared.exec('true', { timeout_ms: 1_000, signal: controller.signal })).rejects.toBe(
        reason,
      );
    });

    test('streams a process while it runs', async () => {
      await using process = await shared.spawn(
        'while read -r line; do echo "got $line"; done; echo end >&2; exit 5',
        {
          user: 'agent',
        },
      );
      const seen: string[] = [];
      const errors: string[] = [];
      process.stdout.on('data', (chunk: Buffer) => seen.push(chunk.toString()));
      process.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString()));
      process.stdin.write('one\n');
      await until(() => seen.join('') === 'got one\n', 'the first line came back');
      process.stdin.write('two\n');
      await until(() => seen.join('') === 'got one\ngot two\n', 'the second line came back');
      process.stdin.end();
      expect(await process.exited).toBe(5);
      expect(errors.join('')).toBe('end\n');
    });

    test('loses no byte of a fast writer to a slow reader', async () => {
      await using process = await shared.spawn('head -c 3000000 /dev/zero; echo end', { user: 'agent' });
      process.stderr.resume();
      let bytes = 0;
      for await (const chunk of process.stdout) {
        bytes += (chunk as Buffer).length;
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(bytes).toBe(3_000_004);
      expect(await process.exited).toBe(0);
    });

    test('ends a spawned process with its signal', async () => {
      const controller = new AbortController();
      const process = await shared.spawn(['sleep', '300'], { user: 'agent', signal: controller.signal });
      controller.abort();
      expect(await process.exited).toBe(137);
      await process[Symbol.asyncDispose]();
    });

    test('uploads text and bytes, in directories, and reads them back', async () => {
      const bytes = Buffer.from(Uint8Array.from({ length: 256 }, (_zero, index) => index));
      await shared.upload({
        'plain.txt': 'grün\n',
        'deep/er/with space.txt': 'x',
        '-dash': 'y',
        'back\\slash': 'z',
        'bytes.bin': { base64: bytes.toString('base64') },
      });
      expect(Buffer.from((await shared.read('bytes.bin', 256))!)).toEqual(bytes);
      expect(Buffer.from((await shared.read(`${shared.workdir}/plain.txt`, 100))!).toString()).toBe('grün\n');
      for (const path of ['deep/er/with space.txt', '-dash', 'back\\slash']) {
        expect((await shared.read(path, 10))?.length).toBe(1);
      }
      expect(await shared.read('bytes.bin', 255)).toBeNull();
      expect(await shared.read('nothing', 255)).toBeNull();
      expect(await shared.read('deep', 255)).toBeNull();
      expect(
        (await run('cat plain.txt && echo more >>plain.txt && touch deep/er/new && rm -r deep')).exit_code,
      ).toBe(0);

      await shared.upload({ run: '#!/bin/bash\necho ran' }, { mode: 0o755, base: `${shared.workdir}/bin` });
      expect((await run('bin/run')).stdout).toBe('ran\n');
      await shared.upload({ '.settings/x.json': '{}' }, { base: shared.agent_home });
      expect((await run('cat ~/.settings/x.json')).stdout).toBe('{}');
      await expect(shared.upload({ '../out': 'x' })).rejects.toBeInstanceOf(EpisodeError);
    });

    test('follows no link the agent planted when it writes', async () => {
      const outside = `${shared.agent_home}/outside`;
      const made = await run(
        `mkdir ${outside} && echo original >${outside}/kept && cp ${outside}/kept ${outside}/hard
         ln -s ${outside} linked && mkdir sub && ln -s ${outside} sub/linked && ln -s ${outside}/kept file
         ln ${outside}/hard hard && echo inside >blocking`,
      );
      expect(made.stderr).toBe('');
      await shared.upload(
        { 'linked/kept': 'new', 'sub/linked/kept': 'new', file: 'new', hard: 'new', 'blocking/kept': 'new' },
        { owner: 'grader' },
      );
      const found = await run(
        `cat ${outside}/kept ${outside}/hard; ls ${outside}; for f in linked sub/linked file hard blocking; do [ -L $f ] && echo "$f is a link"; done`,
      );
      expect(found.stdout).toBe('original\noriginal\nhard\nkept\n');
      for (const path of ['linked/kept', 'sub/linked/kept', 'file', 'hard', 'blocking/kept']) {
        expect(Buffer.from((await shared.read(path, 100))!).toString()).toBe('new');
      }
      await shared.giveWorkdir('agent');
    });

    test('follows no link and waits for no pipe when it reads', async () => {
      await run(
        `ln -s /etc etc; ln -s /etc/passwd passwd; mkfifo pipe; ln -s plain loop; mkdir d; ln -s ../d d/up; echo 1 >d/f`,
      );
      for (const path of [
        'etc/passwd',
        'passwd',
        'pipe',
        'd/up/f',
        '../../etc/passwd',
        '/dev/null',
        '/proc/1/status\n',
      ]) {
        expect(await shared.read(path, 1_000_000), path).toBeNull();
      }
      expect(Buffer.from((await shared.read('d/f', 10))!).toString()).toBe('1\n');
    });

    test('gives out regular files below the working directory, and follows no link to them', async () => {
      await using sandbox = await create();
      const made = await sandbox.exec(
        `mkdir -p out/deep empty && echo one >out/one && printf '\\0\\1\\377' >'out/deep/two words' && chmod +x out/one
         ln out/one out/twin && ln -s /etc/passwd out/linked && ln -s /etc whole && mkfifo out/pipe && echo top >top && mkdir real && echo x >real/f && ln -s real led`,
        { user: 'agent', timeout_ms: 30_000 },
      );
      expect(made.stderr).toBe('');
      const bounds = { max_bytes: 100, max_files: 10, timeout_ms: 30_000 };
      const files = await sandbox.collect(
        ['out', 'top', 'out/one', 'whole', 'led/f', 'empty', 'absent'],
        bounds,
      );
      expect(
        Object.fromEntries(
          files.map(({ path, bytes, executable }) => [
            path,
            [Buffer.from(bytes).toString('latin1'), executable],
          ]),
        ),
      ).toEqual({
        'out/one': ['one\n', true],
        'out/twin': ['one\n', true],
        'out/deep/two words': ['\0\x01\xff', false],
        top: ['top\n', false],
      });
      for (const less of [{ max_bytes: 14 }, { max_files: 3 }]) {
        await expect(sandbox.collect(['out', 'top'], { ...bounds, ...less })).rejects.toMatchObject({
          failure: { class: 'task', code: 'artifacts_too_large' },
        });
      }
      await sandbox.upload(Object.fromEntries(files.map(({ path, bytes }) => [path, bytes])), {
        base: `${sandbox.workdir}/again`,
      });
      expect(Buffer.from((await sandbox.read('again/out/deep/two words', 10))!)).toEqual(
        Buffer.from([0, 1, 255]),
      );
    });

    test('kills every process of the agent, however it hides', async () => {
      await using sandbox = await create();
      const sleep = uniqueSleep();
      await using cli = await sandbox.spawn(['sleep', sleep], { user: 'agent' });
      const hidden = [
        `setsid sleep ${sleep} </dev/null >/dev/null 2>&1 &`,
        `(setsid nohup sleep ${sleep} >/dev/null 2>&1 &)`,
        `(trap '' TERM HUP INT; exec sleep ${sleep}) >/dev/null 2>&1 &`,
        `(while :; do sleep ${sleep}; done) >/dev/null 2>&1 &`,
        ...(subject.surelyFound
          ? [`(cd /; exec env -i setsid sleep ${sleep} >/dev/null 2>&1 </dev/null &)`]
          : []),
      ];
      await sandbox.exec(hidden.join('\n'), { user: 'agent', timeout_ms: 30_000 });
      await until(async () => (await countProcesses(sandbox, sleep)) >= hidden.length, 'they all run');
      await sandbox.killAgent(30_000);
      expect(await countProcesses(sandbox, sleep)).toBe(0);
      expect(await cli.exited).toBe(137);
      // Nothing to kill is fine, and the sandbox goes on.
      await sandbox.killAgent(30_000);
      expect(await sandbox.state()).toBe('running');
      expect((await sandbox.exec('echo alive', { user: 'grader', timeout_ms: 30_000 })).stdout).toBe(
        'alive\n',
      );
    });

    test('hands the working directory to another user, whatever the agent made of it', async () => {
      await using sandbox = await create();
      await sandbox.exec('mkdir -p a/b && touch a/b/c && ln -s /etc/passwd link && chmod 0 .', {
        user: 'agent',
        timeout_ms: 30_000,
      });
      await sandbox.killAgent(30_000);
      await sandbox.giveWorkdir('grader');
      const found = await sandbox.exec('echo x >a/b/c && touch new && echo ok', {
        user: 'grader',
        timeout_ms: 30_000,
      });
      expect(found).toMatchObject({ exit_code: 0, stdout: 'ok\n' });
    });

    test('keeps two sandboxes apart', async () => {
      await using one = await create();
      await using two = await create();
      expect(one.id).not.toBe(two.id);
      await one.upload({ 'only-in-one': 'x' });
      expect(await two.read('only-in-one', 10)).toBeNull();
      const sleep = uniqueSleep();
      await using held = await two.spawn(['sleep', sleep], { user: 'agent' });
      // Spawned is not yet running: what brings it into the sandbox may need a moment.
      await until(async () => (await countProcesses(two, sleep)) === 1, 'it runs');
      await one.killAgent(30_000);
      expect(await countProcesses(two, sleep)).toBe(1);
      await held.kill();
    });

    test('is gone, with all it ran, once it is disposed', async () => {
      const sandbox = await create();
      const sleep = uniqueSleep();
      await sandbox.exec(`(setsid sleep ${sleep} >/dev/null 2>&1 &)`, { user: 'agent', timeout_ms: 30_000 });
      const process = await sandbox.spawn(['sleep', sleep], { user: 'agent' });
      await sandbox[Symbol.asyncDispose]();
      await sandbox[Symbol.asyncDispose]();
      expect(await process.exited).toBeNull();
      expect(await sandbox.state()).toBe('gone');
      expect(await countProcesses(shared, sleep)).toBe(0);
      const late = sandbox.exec('true', { timeout_ms: 30_000 });
      await expect(late).rejects.toMatchObject({
        failure: { class: 'infra', code: 'sandbox_gone', retryable: true },
      });
    });

    test('says that it is gone when it vanished', async () => {
      const sandbox = await create();
      await subject.vanish(sandbox);
      await until(async () => (await sandbox.state()) === 'gone', 'the loss is noticed');
      await sandbox[Symbol.asyncDispose]();
    });

    test('is not made when the episode was cancelled', async () => {
      const reason = new Error('cancelled by test');
      await expect(create({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
      const controller = new AbortController();
      const making = create({ signal: controller.signal });
      controller.abort(reason);
      const made = await making.catch((error: unknown) => error);
      expect(made).toBe(reason);
    });

    test('is reaped when its worker is dead or its time is up, and only then', async () => {
      const dead = await create({ owner: { worker: 'worker-dead', run_id: 'run-2' } });
      const foreign = await create({ owner: { pool: `${testPool}-other`, worker: 'worker-dead' } });
      const isDead = (worker: string): boolean => worker === 'worker-dead';
      try {
        const alive = await provider.reap(reapFilter());
        expect(alive.removed).toEqual([]);
        // Those that wait for an episode are there, too.
        const kept = alive.kept.map(({ id }) => id);
        expect(kept).toEqual(expect.arrayContaining([shared.id, dead.id]));
        expect(kept).not.toContain(foreign.id);
        expect((await provider.reap(reapFilter({ isDead, run_id: 'run-other' }))).removed).toEqual([]);
        expect((await provider.reap(reapFilter({ isDead, run_id: 'run-2' }))).removed).toEqual([dead.id]);
        expect(await dead.state()).toBe('gone');
        expect(await foreign.state()).toBe('running');
        expect(await shared.state()).toBe('running');
        const all = await provider.reap({ pool: `${testPool}-other`, isDead: () => false, all: true });
        // Volumes that hold an agent CLI are every pool's, and go with any that is swept whole.
        expect(all.removed.filter((id) => !id.startsWith('rollpool-cli-'))).toEqual([foreign.id]);
      } finally {
        await dead[Symbol.asyncDispose]();
        await foreign[Symbol.asyncDispose]();
      }
    });

    test('may be removed by anybody after its time, unless it was given more', async () => {
      // Of a kind of its own: one that was made ahead cannot be found by its run.
      const request = { ttl_seconds: 2, owner: { run_id: 'run-brief' }, spec: { cpus: 0.9 } };
      const brief = await create(request);
      const extended = await create(request);
      await extended.extend(600);
      const report = await until(async () => {
        const now = await provider.reap(reapFilter({ run_id: 'run-brief' }));
        return now.removed.length > 0 ? now : null;
      }, 'the expired one is removed');
      expect(report.removed).toEqual([brief.id]);
      expect(await extended.state()).toBe('running');
      expect(report.kept.map(({ id }) => id)).toEqual([extended.id]);
      await brief[Symbol.asyncDispose]();
      await extended[Symbol.asyncDispose]();
    });
  });
}
