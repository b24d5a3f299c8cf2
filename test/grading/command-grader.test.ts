import { describe, expect, it } from 'vitest';
import {
  claudeCodeTaskSchema,
  resolveLimits,
  type EffectiveLimits,
  type Verify,
} from '../../src/contracts/index.ts';
import { createCommandGrader, type Grade } from '../../src/grading/index.ts';
import { silentLogger } from '../../src/observe/index.ts';
import type { Sandbox } from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { openSandbox, usableProviders } from './open-sandbox.ts';
import { gradeFault } from './grade-fault.ts';

const grader = createCommandGrader();

interface GradeInput extends Partial<Omit<Verify, 'commands'>> {
  readonly commands: string[];
}

function grade(
  sandbox: Sandbox,
  verify: GradeInput,
  limits: Partial<EffectiveLimits> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<Grade> {
  const task = claudeCodeTaskSchema.parse({ task_key: 't', kind: 'claude_code', prompt: 'p', verify });
  return grader.grade({
    task,
    sandbox,
    environment: null,
    limits: resolveLimits(limits),
    final_answer: null,
    conversation: [],
    signal,
    log: silentLogger,
  });
}

/** Acts as the agent. */
async function act(sandbox: Sandbox, command: string): Promise<string> {
  const result = await sandbox.exec(command, { user: 'agent', timeout_ms: 30_000 });
  expect(result, command).toMatchObject({ exit_code: 0 });
  return result.stdout;
}

const providers = await usableProviders();

describe.each(providers)('grading in a %s sandbox', (provider) => {
  it('runs the commands in order, keeps the ends of what they print, and counts those that pass', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await act(sandbox, 'echo 42 > answer.txt');
    const graded = await grade(sandbox, {
      files: { 'tests/check.sh': 'test "$(cat answer.txt)" = 42 && echo right >&2\n' },
      commands: ['bash tests/check.sh', 'head -c 200000 /dev/zero | tr "\\0" x; echo end; exit 1', 'exit 4'],
      reward: 'fraction',
    });
    expect(graded.reward).toBeCloseTo(1 / 3);
    expect(graded.rewards).toEqual({ tests: graded.reward });
    expect(graded.metrics).toEqual({ verify_commands: 3, verify_passed: 1 });
    expect(graded.verify.map((one) => one.exit_code)).toEqual([0, 1, 4]);
    expect(graded.verify[0]).toMatchObject({ command: 'bash tests/check.sh', stderr_tail: 'right\n' });
    expect(graded.verify[1]?.stdout_tail).toBe(`${'x'.repeat(1_996)}end\n`);
  });

  it('takes no file, link or directory of the agent’s for one of the verifier’s', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await act(
      sandbox,
      `mkdir -p elsewhere/deep c.sh/x tests && echo mine > elsewhere/a.sh && echo mine > elsewhere/reward.txt
       echo 'exit 0' > tests/planted.sh && ln -s ../elsewhere/a.sh tests/a.sh
       ln -s elsewhere linked && ln -s elsewhere out && echo file > notdir && chmod 000 elsewhere/deep
       mkdir -p tests/locked && chmod 000 tests/locked`,
    );
    const graded = await grade(sandbox, {
      files: {
        'tests/planted.sh': 'exit 1\n',
        'tests/a.sh': 'exit 0\n',
        'linked/a.sh': 'exit 0\n',
        'notdir/b.sh': 'exit 0\n',
        'c.sh': 'exit 0\n',
        'tests/locked/d.sh': 'exit 0\n',
      },
      commands: [
        '! bash tests/planted.sh',
        'bash tests/a.sh && test ! -L tests/a.sh',
        'bash linked/a.sh && test ! -L linked && bash notdir/b.sh && bash c.sh && bash tests/locked/d.sh',
        'test "$(cat elsewhere/a.sh elsewhere/reward.txt)" = "mine\nmine"',
        'test ! -e out/reward.txt && mkdir -p out && echo 0.25 > out/reward.txt',
      ],
      reward: 'file:out/reward.txt',
    });
    expect(graded.verify.map((one) => one.exit_code)).toEqual([0, 0, 0, 0, 0]);
    expect(graded).toMatchObject({ reward: 0.25, rewards: { file: 0.25 } });
  });

  it('gives no reward for a reward file that the agent wrote', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await act(sandbox, 'echo 1 > reward.txt; mkdir out; echo 1 > out/r.txt');
    for (const reward of ['file:reward.txt', 'file:./out/r.txt'] as const) {
      expect(await gradeFault(grade(sandbox, { commands: ['true'], reward }))).toMatchObject({
        class: 'task',
        phase: 'grade',
        code: 'reward_missing',
        retryable: false,
        outcomes: [{ command: 'true', exit_code: 0 }],
      });
    }
  });

  it('ends what the agent left running before anything else', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await act(
      sandbox,
      `setsid bash -c 'while :; do echo 1 > reward.txt; touch alive; done' </dev/null >/dev/null 2>&1 &`,
    );
    await until(() => sandbox.read('alive', 10), 'the agent’s loop runs');
    const graded = await grade(sandbox, {
      commands: [
        'rm -f alive; for i in 1 2 3 4 5 6 7 8; do test ! -e alive || exit 1; sleep 0.05; done',
        'echo 0 > reward.txt',
      ],
      reward: 'file:reward.txt',
    });
    expect(graded).toMatchObject({ reward: 0, metrics: { verify_passed: 2 } });
  });

  it('runs the commands with nothing of the agent’s environment, and lets them write where the agent did', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await act(
      sandbox,
      `mkdir -p src && echo 'echo hijacked' > ~/.bashrc && cp ~/.bashrc ~/.bash_profile && echo x > src/a.txt && chmod 600 src/a.txt`,
    );
    const graded = await grade(sandbox, {
      commands: [
        'env; id -u',
        'echo y >> src/a.txt && touch new && mkdir src/b && test "$PWD" = "$(pwd -P)"',
      ],
    });
    const printed = graded.verify[0]?.stdout_tail ?? '';
    expect(printed).not.toMatch(/ANTHROPIC|BASH_ENV|PYTHONPATH|hijacked/);
    expect(printed).toMatch(/^PYTHONNOUSERSITE=1$/m);
    expect(printed).not.toMatch(new RegExp(`^HOME=${sandbox.agent_home}$`, 'm'));
    if (sandbox.isolation !== 'process') {
      const agent = await sandbox.exec('id -u', { user: 'agent', timeout_ms: 30_000 });
      expect(printed.trim().split('\n').at(-1)).not.toBe(agent.stdout.trim());
      expect(printed.trim().split('\n').at(-1)).not.toBe('0');
    }
    expect(graded.reward).toBe(1);
  });

  it('does not let planted byte code stand in for the verifier’s own modules', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    // An unchecked byte-code file is loaded whatever the source beside it says.
    await act(
      sandbox,
      `mkdir -p tests && cd tests && echo 'RESULT = 0' > oracle.py &&
       python3 -c "import py_compile; py_compile.compile('oracle.py', invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)"
       ls __pycache__`,
    );
    const graded = await grade(sandbox, {
      files: {
        'tests/oracle.py': 'RESULT = 7\n',
        'tests/check.py': 'import sys, oracle\nsys.exit(oracle.RESULT)\n',
      },
      commands: ['python3 tests/check.py'],
    });
    expect(graded.verify[0]?.exit_code).toBe(7);
  });

  it('counts 0 for a command that hangs, and for those that the total leaves no time for', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    const hung = await grade(
      sandbox,
      { commands: ['sleep 100', 'echo fine'], reward: 'fraction' },
      { grade_seconds: 3 },
    );
    expect(hung.verify.map((one) => one.exit_code)).toEqual([null, 0]);
    expect(hung).toMatchObject({ reward: 0.5, metrics: { verify_timeouts: 1 } });

    const spent = await grade(sandbox, { commands: ['sleep 100', 'echo late'] }, { grade_total_seconds: 1 });
    expect(spent.verify.map((one) => one.exit_code)).toEqual([null, null]);
    expect(spent.verify[1]?.stderr_tail).toContain('grade_total_seconds');
    expect(spent).toMatchObject({ reward: 0, metrics: { verify_timeouts: 2 } });

    const unwritten = await grade(
      sandbox,
      { commands: ['sleep 100; echo 1 > r'], reward: 'file:r' },
      { grade_seconds: 0.5 },
    );
    expect(unwritten).toMatchObject({ reward: 0 });
  });

  it('says that the verifier is at fault, and not the agent, when it cannot run', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    expect(await gradeFault(grade(sandbox, { commands: ['true', 'no-such-program', 'true'] }))).toMatchObject(
      {
        class: 'task',
        code: 'verifier_missing',
        outcomes: [{ exit_code: 0 }, { exit_code: 127 }, { exit_code: 0 }],
      },
    );
    expect(
      await gradeFault(grade(sandbox, { files: { 'run.sh': 'true\n' }, commands: ['./run.sh'] })),
    ).toMatchObject({ class: 'task', code: 'verifier_missing', outcomes: [{ exit_code: 126 }] });
    const pytest = { 'pytest.py': 'import sys\nsys.exit(int(sys.argv[1]))\n' };
    for (const code of [3, 4, 5]) {
      expect(
        await gradeFault(grade(sandbox, { files: pytest, commands: [`python3 -m pytest ${code}`] })),
      ).toMatchObject({ class: 'task', code: 'verifier_error', outcomes: [{ exit_code: code }] });
    }
    await expect(grade(sandbox, { files: pytest, commands: ['python3 -m pytest 2'] })).resolves.toMatchObject(
      { reward: 0 },
    );
  });

  it('takes the reward from a JUnit report that the commands wrote', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    const write = `import pathlib
pathlib.Path('out').mkdir(exist_ok=True)
pathlib.Path('out/r.xml').write_text('<testsuites><testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite></testsuites>')
`;
    const graded = await grade(sandbox, {
      files: { 'tests/run.py': write },
      commands: ['python3 tests/run.py; exit 1'],
      reward: 'junit:out/r.xml',
    });
    expect(graded).toMatchObject({
      reward: 0.5,
      rewards: { tests: 0.5 },
      metrics: { tests: 2, tests_passed: 1 },
    });
  });

  it('gives no reward for a reward file that holds none, or is no file', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    for (const [command, code] of [
      ['echo nan > r', 'reward_invalid'],
      ['echo 2 > r', 'reward_invalid'],
      ['echo 1 > other; ln -s other r', 'reward_missing'],
      ['mkdir r', 'reward_missing'],
      ['head -c 5000 /dev/zero | tr "\\0" 1 > r', 'reward_missing'],
      ['mkfifo r', 'reward_missing'],
    ] as const) {
      const found = await gradeFault(grade(sandbox, { commands: [command], reward: 'file:r' }));
      expect(found, command).toMatchObject({ class: 'task', code });
    }
  });

  it('is an infrastructure failure when the sandbox is lost on the way', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    const grading = gradeFault(grade(sandbox, { commands: ['true', 'touch here; sleep 100'] }));
    await until(() => sandbox.read('here', 10).catch(() => null), 'the second command runs');
    await sandbox[Symbol.asyncDispose]();
    expect(await grading).toMatchObject({ class: 'infra', retryable: true, outcomes: [{ exit_code: 0 }] });
  });

  it('ends with the signal’s reason when it aborts', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    const controller = new AbortController();
    const reason = new Error('cancelled');
    const grading = grade(sandbox, { commands: ['touch here; sleep 100'] }, {}, controller.signal);
    grading.catch(() => undefined);
    await until(() => sandbox.read('here', 10).catch(() => null), 'the command runs');
    controller.abort(reason);
    await expect(grading).rejects.toBe(reason);
  });

  // In local sandboxes users are not told apart.
  if (provider === 'local') return;

  it('leaves no process of the grader behind to change the reward', async () => {
    await using opened = await openSandbox(provider);
    const { sandbox } = opened;
    await grade(sandbox, { commands: ['setsid sleep 300 >/dev/null 2>&1 & echo 1 > r'], reward: 'file:r' });
    const left = await sandbox.exec("grep -l '^Uid:.*1001' /proc/[0-9]*/status", { timeout_ms: 30_000 });
    expect(left.stdout).toBe('');
  });
});
