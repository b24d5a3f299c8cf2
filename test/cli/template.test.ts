import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openE2bDouble, type E2bDouble } from '../e2b-double/open-e2b-double.ts';
import { haveDocker } from '../sandbox/docker-daemon.ts';
import { expectOneLine, invoke } from './invoke.ts';

describe.runIf(haveDocker)('rollpool template', { timeout: 60_000 }, () => {
  let double: E2bDouble;
  beforeAll(async () => {
    double = await openE2bDouble();
  });
  afterEach(() => double.clearFaults());
  afterAll(async () => {
    await double[Symbol.asyncDispose]();
  });

  test('builds the template of Claude Code tasks under a name, and shows what the service says meanwhile', async () => {
    const args = ['template', 'build', '--name', 'mine', '--cpus', '4', '--memory-mb', '4096'];
    const built = await invoke(args, double.env);
    expect(built).toMatchObject({ code: 0, stdout: expect.stringMatching(/^mine: built \(\S+\)\n$/) });
    expect(built.stderr).toContain('Build finished');
    const [build] = double.builds();
    expect(build).toMatchObject({ cpuCount: 4, memoryMB: 4096, status: 'ready' });
    const steps = JSON.stringify(build!.start);
    for (const word of ['node:22', '@anthropic-ai/claude-code@2.1.332', 'python3', 'git', 'useradd']) {
      expect(steps).toContain(word);
    }
    expect(built.stderr + built.stdout).not.toContain(double.apiKey);
    expect(await invoke(['template', 'check', '--name', 'mine'], double.env)).toMatchObject({
      code: 0,
      stdout: 'mine is there\n',
    });
  });

  test('says in one line why a template was not built, or is not there', async () => {
    double.fault({ kind: 'fail_build', message: 'no space left on the builder', times: 1 });
    const failed = await invoke(['template', 'build', '--name', 'mine'], double.env);
    expect(failed).toMatchObject({ code: 1, stdout: '' });
    expect(failed.stderr).toMatch(
      /rollpool: the template mine was not built: .*no space left on the builder\n$/,
    );
    expect(await invoke(['template', 'check', '--name', 'nowhere'], double.env)).toMatchObject({
      code: 1,
      stdout: 'nowhere is not there: rollpool template build makes it\n',
    });
  });

  test('needs a key that the service takes', async () => {
    expectOneLine(await invoke(['template', 'check'], {}), 'E2B_API_KEY is not set');
    const wrong = { ...double.env, E2B_API_KEY: 'e2b_wrong' };
    expectOneLine(await invoke(['template', 'check'], wrong), 'E2B does not say');
    const refused = await invoke(['template', 'build'], wrong);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toMatch(/rollpool: E2B does not take the key \(E2B_API_KEY\): .*\n$/);
    expect(refused.stderr).not.toContain('e2b_wrong');
  });

  test('and its key are looked at by doctor', async () => {
    const found = await invoke(['doctor', '--json'], { ...double.env, ROLLPOOL_E2B_TEMPLATE: 'nowhere' });
    const { findings } = JSON.parse(found.stdout) as { findings: { what: string }[] };
    expect(findings.filter(({ what }) => what.startsWith('e2b'))).toEqual([
      { what: 'e2b', verdict: 'ok', says: `${double.apiUrl} takes the key` },
      {
        what: 'e2b template',
        verdict: 'missing',
        says: 'nowhere is not there: rollpool template build makes it',
      },
    ]);
  });
});
