import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startScriptedPolicy, type ScriptedPolicy } from '../../../src/policy/index.ts';
import { haveDocker } from '../../sandbox/docker-daemon.ts';
import { childProcesses } from '../../workers/child-processes.ts';
import { openPolicyGate } from '../policy-gate.ts';
import { everythingInRedis, payloadsOf } from '../redis-content.ts';
import { bash, smallScripts, smallTask } from '../small-tasks.ts';
import { openStage, places, placesOf, readResults } from '../stage.ts';
import { messageScript, startFleet, workshopMark } from './cli-stage.ts';
import { messageTask } from './stage.ts';

const key = `fleet-key-${process.pid}-m3n4b5v6`;
/** Matches the key and not itself, so that a search does not find its own command. */
const pattern = key.replace('fleet-key', '[f]leet-key');
const search = `grep -rlaE '${pattern}' / --exclude-dir=proc --exclude-dir=sys 2>/dev/null`;

/** All that an agent sees; in a local sandbox it sees the files and processes of its user too, which it is warned of. */
const looks = {
  docker:
    `echo "env [$(env | grep -cE '${pattern}|^FLEET_')] files [$(${search})] processes ` +
    `[$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -acE '${pattern}')]"`,
  local: `echo "env [$(env | grep -cE '${pattern}|^FLEET_')] files [$(grep -rlaE '${pattern}' "$HOME" . 2>/dev/null)] processes [0]"`,
};

/** Passes only where its process has nothing of the key: neither in its environment nor in its arguments. */
const nosyVerifier = `
import os
import sys

def validate_task(env, final_answer=None):
    has = sorted(os.environ.items())
    secret = "fleet" + "-key-"
    if any("FLEET" in name or secret in value for name, value in has):
        return 0.0
    if any(secret in argument for argument in sys.argv):
        return 0.0
    return 1.0
`;

function commandLines(pid: number): string[] {
  return childProcesses(pid).flatMap((child) => [child.command, ...commandLines(child.pid)]);
}

describe('the key of the Fleet service', { timeout: 180_000 }, () => {
  let policy: ScriptedPolicy;
  beforeAll(async () => {
    const script = (sandbox: 'docker' | 'local'): { match: string; turns: unknown[] } => ({
      match: `Task look-around-${sandbox}`,
      turns: [{ tool_calls: [bash(looks[sandbox])] }, { text: 'I have seen it all.' }],
    });
    const scripts = smallScripts([script('docker'), script('local'), messageScript]);
    policy = await startScriptedPolicy({ scripts, seed: 1 });
  });
  afterAll(async () => policy[Symbol.asyncDispose]());

  test.each([...(haveDocker ? (['docker'] as const) : []), 'local' as const])(
    'is nowhere but in the worker, while tasks of both kinds run beside each other (%s)',
    async (sandbox) => {
      await using gate = await openPolicyGate(policy.url, workshopMark);
      await using stage = await openStage({ ROLLPOOL_POLICY_URL: gate.url });
      const fleet = await startFleet(stage, key);
      const keyFile = join(stage.directory, 'fleet-key');
      await writeFile(keyFile, `${key}\n`, { mode: 0o600 });
      const given = {
        FLEET_BASE_URL: fleet.url,
        ...(sandbox === 'docker' ? { FLEET_API_KEY: key } : { FLEET_API_KEY_FILE: keyFile }),
      };
      const looking = `look-around-${sandbox}`;
      const tasks = await stage.file('tasks.json', [
        smallTask(looking),
        messageTask({ task_key: 'nosy', verifier_code: nosyVerifier }),
        messageTask({ task_key: 'honest' }),
      ]);
      const out = join(stage.directory, 'out');
      // The Fleet episodes are in the middle while the other agent looks around.
      gate.hold(2);
      const command = stage.start(
        ['run', tasks, '--run-id', 'secret', '--sandbox', sandbox]
          .concat(['--processes', '1', '--samples', '1', '--out', out])
          .concat(['--log-level', 'trace']),
        given,
      );
      await command.until(() => gate.waiting() === 2, 'the Fleet episodes are in the middle');
      const lines = commandLines(command.pid);
      expect(lines.some((line) => line.includes(' worker '))).toBe(true);
      expect(lines.join('\n')).not.toContain(key);
      await command.until(
        async () => (await stage.queue.runStatus('secret'))?.episodes.delivered === 1,
        'the agent has looked around',
      );
      gate.open();
      const ended = await command.ended;
      expect(ended.code, ended.stderr).toBe(0);
      const results = await readResults(out);
      expect(placesOf(results)).toEqual(places([looking, 'honest', 'nosy'], 1));
      for (const { kind, reward } of results)
        expect([kind, reward]).toEqual([kind, kind === 'fleet' ? 1 : 0]);
      expect(await fleet.instances()).toEqual([]);

      const payloads = await payloadsOf(stage.pool, 'secret');
      const everyPayload = JSON.stringify(payloads);
      expect(everyPayload).toContain('env [0] files [] processes [0]');
      const seen = {
        redis: await everythingInRedis(stage.pool),
        payloads: everyPayload,
        results: await readFile(join(out, 'results.jsonl'), 'utf8'),
        workers: await readFile(join(out, 'workers.log'), 'utf8'),
        run: ended.stdout + ended.stderr + fleet.stdout() + fleet.stderr(),
      };
      for (const [where, text] of Object.entries(seen)) {
        expect(text.length, where).toBeGreaterThan(100);
        expect(text.includes(key), `the key stands in ${where}`).toBe(false);
      }
    },
  );
});
