import { describe, expect, it } from 'vitest';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { act, asRoot, grade } from './grade.ts';
import { gradeFault } from './grade-fault.ts';
import { openSandbox } from './open-sandbox.ts';

describe.skipIf(!haveDocker)('a verifier with places of its own', () => {
  it('finds its files alone in its directory, whatever stood there, and the rest as the agent left it', async () => {
    await using opened = await openSandbox('docker');
    const { sandbox } = opened;
    // An image may give its agent the directory, or one above it.
    await asRoot(
      sandbox,
      'mkdir -p /tests/deep /given/x /keep && echo mine > /keep/file && chown -R 1000 /tests /given',
    );
    await act(
      sandbox,
      `echo 'import sys; sys.exit(0)' > /tests/json.py; ln -s /keep /tests/link; echo done > work.txt
       mkdir -m 0 /tests/deep/locked; rm -rf /given/x; ln -s /keep /given/x`,
    );
    const graded = await grade(sandbox, {
      dir: '/tests',
      files: { 'check.py': 'import json\nprint(json.dumps(open("work.txt").read()))\n', 'a/b.sh': 'true\n' },
      commands: [
        'python3 /tests/check.py',
        'test "$(cd /tests; find . -mindepth 1 | sort | tr "\\n" ,)" = ./a,./a/b.sh,./check.py,',
        'bash /tests/a/b.sh && touch /tests/report && test "$PWD" = /workspace',
      ],
    });
    expect(graded.verify.map(({ exit_code }) => exit_code)).toEqual([0, 0, 0]);

    const inside = await grade(sandbox, {
      dir: '/given/x/y',
      files: { c: '' },
      commands: ['test -f /given/x/y/c && test ! -L /given/x && test "$(ls /keep)" = file'],
    });
    expect(inside.reward).toBe(1);
  });

  it('runs as root where the task says so, and ends what that leaves running but not the sandbox', async () => {
    await using opened = await openSandbox('docker');
    const { sandbox } = opened;
    await act(sandbox, `echo 'echo planted' | tee ~/.bashrc > ~/.profile`);
    const graded = await grade(sandbox, {
      user: 'root',
      commands: [
        'id -u; echo $HOME; test -O work || touch work',
        // A daemon that lets go of everything it is known by, and one of another user.
        `for user in 0 1001; do
           env -i setsid perl -e '$) = $( = $> = $< = shift; chdir "/"; fork && exit; while (1) { open F, ">>/workspace/alive" and close F }' $user </dev/null >/dev/null 2>&1 &
         done; until test -e alive; do sleep 0.05; done; echo 0.25 > reward.txt`,
      ],
      reward: 'file:reward.txt',
    });
    expect(graded.verify[0]?.stdout_tail).toBe('0\n/root\n');
    expect(graded.reward).toBe(0.25);
    const left = await asRoot(sandbox, 'rm alive; grep -l perl /proc/[0-9]*/comm || true; ls -A');
    expect(left).toBe('reward.txt\nwork\n');
    expect(await sandbox.state()).toBe('running');
  });

  it.each(['root', 'grader'] as const)(
    'takes a Harbor reward that %s wrote, and none of before',
    async (user) => {
      await using opened = await openSandbox('docker');
      const { sandbox } = opened;
      await asRoot(sandbox, 'mkdir -p /logs /keep && chown 1000 /logs /keep');
      await act(sandbox, 'echo 1 > /keep/reward.txt && ln -s /keep /logs/verifier');
      const verify = { user, dir: '/tests', reward: 'harbor' as const };
      const found = await gradeFault(grade(sandbox, { ...verify, commands: ['ls -A /logs/verifier'] }));
      expect(found).toMatchObject({ code: 'reward_missing', outcomes: [{ stdout_tail: '' }] });

      const text = { ...verify, commands: ['echo 0.5 > /logs/verifier/reward.txt'] };
      expect((await grade(sandbox, text)).reward).toBe(0.5);
      const json = {
        ...verify,
        commands: [`echo '{"reward": 0.75, "style": 1}' > /logs/verifier/reward.json`],
      };
      expect((await grade(sandbox, json)).rewards).toEqual({ reward: 0.75, style: 1 });
      expect(await asRoot(sandbox, 'cat /keep/reward.txt')).toBe('1\n');
    },
  );
});

describe('a local sandbox', () => {
  it('refuses a verifier that needs places outside of it, naming the field', async () => {
    await using opened = await openSandbox('local');
    const { sandbox } = opened;
    const far = await gradeFault(grade(sandbox, { dir: '/tests', commands: ['true'] }));
    expect(far).toMatchObject({ class: 'task', code: 'verifier_unsupported' });
    expect(far.message).toContain('verify.dir');
    const logs = await gradeFault(grade(sandbox, { reward: 'harbor', commands: ['true'] }));
    expect(logs.message).toContain('verify.reward');
  });
});
