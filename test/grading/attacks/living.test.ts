import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { haveDocker } from '../../sandbox/docker-daemon.ts';
import { asRoot } from '../grade.ts';
import { openArena, type Arena } from './arena.ts';

const honest = {
  commands: ['mkdir -p out; echo 0.25 > out/reward.txt', 'sleep 0.5', 'test ! -e /workspace/alive'],
  reward: 'file:out/reward.txt' as const,
};

/** Runs on after the agent, in a session of its own. */
const daemon = (script: string): string =>
  `setsid bash -c '${script}' </dev/null >/dev/null 2>&1 & until test -e started; do sleep 0.02; done`;

describe.skipIf(!haveDocker)('an agent whose processes live on', () => {
  let arena: Arena;
  beforeAll(async () => {
    arena = await openArena('docker');
  });
  afterAll(async () => arena?.[Symbol.asyncDispose]());
  beforeEach(async () => arena.reset());

  it.each([
    [
      'a daemon that rewrites the reward as fast as it can',
      daemon('touch started; while :; do mkdir -p out; echo 1 > out/reward.txt; done'),
    ],
    [
      'one that ignores every signal, forks away and waits for the verifier',
      daemon(`trap "" TERM HUP INT QUIT; touch started
        (while :; do test -e tests/x && touch alive; (sleep 0.01 &); sleep 0.02; done) & disown; exit`),
    ],
    [
      'one that stops itself, to be continued by a timer',
      daemon('touch started; (sleep 2; kill -CONT $$) & kill -STOP $$; while :; do touch alive; done'),
    ],
    ['a fork bomb', daemon('touch started; bomb() { bomb | bomb & }; bomb; while :; do :; done')],
    [
      'one that holds files open and lies in memory that all share',
      daemon('mkdir -p out; exec 7>out/reward.txt 8>/dev/shm/x; touch started; while :; do echo 1 >&7; done'),
    ],
  ])('wins nothing by %s', async (_what, agent) => {
    const graded = await arena.attack(agent, honest);
    expect(
      graded.verify.map(({ exit_code }) => exit_code),
      JSON.stringify(graded.verify),
    ).toEqual([0, 0, 0]);
    expect(graded.reward).toBe(0.25);
    expect(await arena.sandbox.countAgent?.(30_000)).toBe(0);
  });

  it('reaches no process but its own, by no way', async () => {
    const graded = await arena.attack(
      `for pid in 1 $(ls /proc | grep -E '^[0-9]+$'); do
         [ "$(stat -c %u /proc/$pid 2>/dev/null)" = 0 ] || continue
         if kill -STOP $pid 2>/dev/null; then echo "stopped $pid" >&2; exit 1; fi
         if (exec 3<>/proc/$pid/mem) 2>/dev/null; then echo "memory of $pid" >&2; exit 1; fi
         if cat /proc/$pid/environ >/dev/null 2>&1; then echo "environment of $pid" >&2; exit 1; fi
       done
       python3 - <<'PY'
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, 1, 0, 0) == -1 and libc.setuid(0) == -1 and libc.setuid(1001) == -1
PY`,
      honest,
    );
    expect(graded.reward).toBe(0.25);
  });

  it('fills no worker with what its code prints under the verifier', async () => {
    const task_parts = { files: { 'work.sh': '' } };
    await arena.reset(task_parts);
    const before = process.memoryUsage().rss;
    const graded = await arena.attack(
      `echo 'head -c 200M /dev/zero | tr "\\0" y; head -c 50M /dev/zero >&2' > work.sh`,
      { ...honest, commands: ['bash work.sh', 'mkdir out; echo 0.25 > out/reward.txt'] },
      { task_parts },
    );
    expect(graded.reward).toBe(0.25);
    expect(graded.verify[0]?.stdout_tail).toBe('y'.repeat(2_000));
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 2 ** 20);
  });

  it('gains nothing by reports that only look like results', async () => {
    const bomb = `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>`;
    const claims = '<testsuite tests="100" failures="0"><testcase name="a"><failure/></testcase></testsuite>';
    for (const [text, rule] of [
      [bomb, 'junit:r'],
      [claims, 'junit:r'],
      ['1e999', 'file:r'],
    ] as const) {
      const task_parts = { files: { 'work.sh': 'exit 1\n' } };
      await arena.reset(task_parts);
      // Code under test that writes the report itself and ends its tester.
      const agent = `printf %s '${Buffer.from(text).toString('base64')}' > r.b64; echo 'base64 -d r.b64 > r; exit 9' > work.sh`;
      const empty =
        rule === 'file:r'
          ? 'echo 0 > r'
          : `echo '<testsuite><testcase name="a"><failure/></testcase></testsuite>' > r`;
      const graded = await arena.attack(
        agent,
        { commands: [`source ./work.sh; ${empty}`, `test -s r || (${empty})`], reward: rule },
        { task_parts },
      );
      expect(graded.reward, text).toBe(0);
    }
  });

  it('leaves nothing of it in the sandbox that is graded in', async () => {
    expect(await asRoot(arena.sandbox, 'ls -A /workspace; find /dev/shm -type f -uid 1001')).toBe('');
  });
});
