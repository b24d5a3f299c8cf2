import { describe, expect, it } from 'vitest';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { openArena } from './attacks/arena.ts';
import { usableProviders } from './open-sandbox.ts';

const parts = {
  files: { 'src/a.txt': 'before', 'src/kept.txt': 'kept', 'run.sh': 'echo original' },
  setup: ['ln -s ../elsewhere linked; mkdir made; chmod 755 run.sh'],
};

describe.each(await usableProviders())('grading in a fresh %s sandbox', (provider) => {
  it('takes the named files over, their executable bits too, and nothing else of the agent', async () => {
    await using arena = await openArena(provider);
    await arena.reset(parts);
    const graded = await arena.attack(
      `echo after > src/a.txt; printf '#!/bin/bash\\necho mine' > src/tool; chmod +x src/tool; ln src/tool src/second
       echo stolen > check.sh; ln -s /etc/passwd src/link; mkfifo src/pipe; rm src/kept.txt; mkdir linked.d
       rm linked; mkdir linked; echo through > linked/file; touch unnamed ~/.hidden; echo hacked > run.sh`,
      {
        files: { 'check.sh': 'echo checked' },
        commands: [
          'cat src/a.txt src/kept.txt; src/tool; bash check.sh; bash run.sh',
          'test -x src/second && test ! -e src/link && test ! -L src/link && test ! -e src/pipe',
          'test ! -e unnamed && test -d made && test "$(cat linked/file)" = through && test ! -L linked && test ! -e ../elsewhere/file',
        ],
        sandbox: 'fresh',
        artifacts: ['src', './linked/file', 'absent'],
        reward: 'fraction',
      },
      { task_parts: parts },
    );
    expect(
      graded.verify.map(({ exit_code }) => exit_code),
      JSON.stringify(graded.verify),
    ).toEqual([0, 0, 0]);
    expect(graded.verify[0]?.stdout_tail).toBe('after\nkeptmine\nchecked\noriginal\n');
    expect(graded.metrics).toMatchObject({ fresh_sandbox: true, artifact_files: 4 });
    // The agent's is gone before the verifier starts.
    expect(await arena.sandbox.state()).toBe('gone');
  });
});

describe.skipIf(!haveDocker)('a fresh sandbox', () => {
  it('defends what the agent may own of the image', async () => {
    await using arena = await openArena('docker', async (sandbox) => {
      await sandbox.exec('mkdir -p /opt/bin && cp /bin/false /opt/bin/checker && chown -R 1000 /opt/bin', {
        timeout_ms: 30_000,
      });
    });
    const steal = 'echo work > work.txt; cp /bin/true /opt/bin/checker';
    const verify = { commands: ['/opt/bin/checker work.txt'] };
    // In its own sandbox that is the agent's program, and so is the grade.
    expect((await arena.attack(steal, verify)).reward).toBe(1);
    const fresh = { ...verify, sandbox: 'fresh' as const, artifacts: ['work.txt'] };
    expect((await arena.attack(steal, fresh)).reward).toBe(0);
  });
});
