import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createCommandGrader } from '../../../src/grading/index.ts';
import { haveDocker } from '../../sandbox/docker-daemon.ts';
import { asRoot } from '../grade.ts';
import { gradeFault } from '../grade-fault.ts';
import { openArena, type Arena } from './arena.ts';

/** An image whose agent owns one of the programs that the verifier uses. */
const image = async (sandbox: Arena['sandbox']): Promise<void> => {
  await asRoot(
    sandbox,
    `printf '#!/bin/sh\\nexit 1\\n' > /usr/local/bin/checker && chmod 755 /usr/local/bin/checker
    mkdir -p /opt/venv/bin && cp /usr/local/bin/checker /opt/venv/bin/ && chown -R 1000 /opt/venv`,
  );
};

describe.skipIf(!haveDocker)('an agent that breaks its verifier', () => {
  let arena: Arena;
  beforeAll(async () => {
    arena = await openArena('docker', image);
  });
  afterAll(async () => arena?.[Symbol.asyncDispose]());
  beforeEach(async () => arena.reset());
  const grader = createCommandGrader();

  it('gets 0 for it and not null: the verifier works where no agent has been', async () => {
    const verify = { commands: ['/opt/venv/bin/checker', 'test -f done'], reward: 'fraction' as const };
    const removed = await arena.attack('rm /opt/venv/bin/checker; touch done', verify, { grader });
    expect(removed.verify.map(({ exit_code }) => exit_code)).toEqual([127, 0]);
    expect(removed).toMatchObject({ reward: 0.5, metrics: { verifier_broken_by_agent: true } });
    expect(arena.fresh()).toBe(1);

    // What was found out about the task is remembered.
    await arena.reset();
    const again = await arena.attack('chmod -x /opt/venv/bin/checker', verify, { grader });
    expect(again).toMatchObject({ reward: 0, metrics: { verifier_broken_by_agent: true } });
    expect(arena.fresh()).toBe(1);
  });

  it('gets 0 where code under test ends its tester before that wrote the reward', async () => {
    const task_parts = { files: { 'work.py': 'def half():\n    return 0\n' } };
    await arena.reset(task_parts);
    const verify = {
      files: { 'check.py': 'import work\nopen("reward.txt", "w").write("0.5" if work.half() else "0")\n' },
      commands: ['python3 check.py'],
      reward: 'file:reward.txt' as const,
    };
    const ended = await arena.attack(`printf 'import os\\nos._exit(0)\\n' > work.py`, verify, {
      grader,
      task_parts,
    });
    expect(ended).toMatchObject({ reward: 0, rewards: { file: 0 } });
    await arena.reset(task_parts);
    const wrong = `printf 'open("reward.txt", "w").write("1e999"); import os; os._exit(0)' > work.py`;
    expect(await arena.attack(wrong, verify, { grader, task_parts })).toMatchObject({ reward: 0 });
  });

  it('leaves the blame where it belongs: a verifier that never works gives no reward', async () => {
    const missing = await gradeFault(arena.attack('true', { commands: ['no-such-checker'] }, { grader }));
    expect(missing).toMatchObject({
      class: 'task',
      code: 'verifier_missing',
      outcomes: [{ exit_code: 127 }],
    });
    await arena.reset();
    const unwritten = await gradeFault(
      arena.attack('true', { commands: ['true'], reward: 'file:r' }, { grader }),
    );
    expect(unwritten).toMatchObject({ class: 'task', code: 'reward_missing' });
  });

  it('gets 0 for artifacts past all bounds, and files with impossible names stay behind', async () => {
    const verify = { commands: ['ls -A'], sandbox: 'fresh' as const, artifacts: ['out'] };
    const large = await arena.attack('mkdir out; truncate -s 65M out/a', verify, { grader });
    expect(large).toMatchObject({ reward: 0, metrics: { fresh_sandbox: true, artifacts_too_large: true } });
    await arena.reset();
    const named = await arena.attack(
      `mkdir out; touch -- $'out/a\\nb' out/-rf 'out/ spaced '`,
      {
        ...verify,
        commands: ['ls -A out | tr "\\n" /'],
      },
      { grader },
    );
    expect(named.verify[0]?.stdout_tail).toBe(' spaced /-rf/');
  });
});
