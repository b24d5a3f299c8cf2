import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  loadSettings,
  SettingsError,
  type SettingsFault,
  type SettingsOverrides,
} from '../../src/config/index.ts';
import { defaultLimits, resolveSampling } from '../../src/contracts/index.ts';

function refused(env: Record<string, string>, overrides: SettingsOverrides = {}): SettingsError {
  try {
    loadSettings(env, overrides);
  } catch (fault) {
    if (fault instanceof SettingsError) return fault;
    throw fault;
  }
  throw new Error('the settings were taken');
}

function faultOf(variable: string, value: string): SettingsFault | undefined {
  return refused({ [variable]: value }).faults.find((fault) => fault.variable === variable);
}

describe('settings from an empty environment', () => {
  it('are the documented defaults', () => {
    expect(loadSettings({ XDG_STATE_HOME: '/var/state' })).toEqual({
      redis: { url: null, prefix: '{rollpool}' },
      policy: {
        urls: [],
        apiKey: null,
        model: null,
        streaming: false,
        toolCallParser: 'auto',
        replicaCalls: null,
      },
      worker: {
        lanes: null,
        concurrency: { everyLane: null, byLane: {} },
        allowLocal: false,
        lockSeconds: 60,
        lockRenewSeconds: 10,
        stalledSeconds: 12,
        maxAttempts: 4,
      },
      sandbox: {
        image: null,
        claudeCli: null,
        dockerHost: null,
        diskMb: 10_240,
        diskFreeMb: 5_120,
        imageSeconds: 1_800,
        reach: 'auto',
        egressPrivate: [],
        warm: 0,
        warmCli: false,
        keep: 0,
      },
      e2b: {
        apiKey: null,
        apiUrl: null,
        sandboxUrl: null,
        domain: null,
        template: null,
        sandboxes: 20,
        createsPerSecond: 1,
      },
      fleet: { baseUrl: null, apiKey: null, toolMode: 'auto', partialReward: false },
      trace: { limitBytes: 2 ** 30, maxAgeMs: 7 * 24 * 3_600_000 },
      logLevel: 'info',
      stateDir: '/var/state/rollpool',
      sampling: resolveSampling(),
      limits: defaultLimits,
    });
  });

  it('are frozen in all their depth', () => {
    const settings = loadSettings({});
    expect(() => ((settings.limits as { max_turns: number }).max_turns = 1)).toThrow(TypeError);
    expect(() => (settings.policy.urls as string[]).push('x')).toThrow(TypeError);
  });

  it('are the same when every variable is there but empty', () => {
    expect(loadSettings({ REDIS_URL: '', ROLLPOOL_POLICY_URL: ' ', ROLLPOOL_TYPO: '' })).toEqual(
      loadSettings({}),
    );
  });
});

describe('a variable', () => {
  it('is read into its type', () => {
    const settings = loadSettings({
      REDIS_URL: 'rediss://user:secret@redis.example:6380/2',
      ROLLPOOL_PREFIX: 'pool-a',
      ROLLPOOL_POLICY_URL: 'http://gpu-0:8000/v1, http://gpu-1:8000/',
      ROLLPOOL_LANES: 'fleet,claude_code-docker,fleet',
      ROLLPOOL_CONCURRENCY: '4,fleet=32',
      ROLLPOOL_ALLOW_LOCAL: 'yes',
      ROLLPOOL_AGENT_SECONDS: '12.5',
      ROLLPOOL_MAX_TURNS: '7',
      ROLLPOOL_TEMPERATURE: '0.7',
      ROLLPOOL_TOP_K: '-1',
      ROLLPOOL_SEED: '-3',
      ROLLPOOL_CLAUDE_CLI: '/opt/claude',
      DOCKER_HOST: 'tcp://docker:2375',
    });
    expect(settings).toMatchObject({
      redis: { url: 'rediss://user:secret@redis.example:6380/2', prefix: '{pool-a}' },
      policy: { urls: ['http://gpu-0:8000', 'http://gpu-1:8000'] },
      worker: {
        lanes: ['fleet', 'claude_code-docker'],
        concurrency: { everyLane: 4, byLane: { fleet: 32 } },
        allowLocal: true,
      },
      limits: { ...defaultLimits, agent_seconds: 12.5, max_turns: 7 },
      sampling: { temperature: 0.7, top_k: -1, seed: -3 },
      sandbox: { claudeCli: '/opt/claude', dockerHost: 'tcp://docker:2375' },
    });
  });

  it.each([
    ['REDIS_URL', 'localhost:6379', 'redis://'],
    ['REDIS_URL', 'unix://tmp/redis.sock', 'path'],
    ['REDIS_URL', 'redis://host/name', 'number'],
    ['ROLLPOOL_PREFIX', 'a b', 'letters'],
    ['ROLLPOOL_POLICY_URL', 'gpu:8000', 'http://'],
    ['ROLLPOOL_POLICY_URL', 'http://key@gpu:8000', 'ROLLPOOL_POLICY_API_KEY'],
    ['ROLLPOOL_POLICY_URL', 'http://gpu:8000,http://gpu:8000/v1', 'twice'],
    ['ROLLPOOL_LANES', 'docker', 'claude_code-docker'],
    ['ROLLPOOL_LANES', ',', 'nothing'],
    ['ROLLPOOL_CONCURRENCY', '0', 'above 0'],
    ['ROLLPOOL_CONCURRENCY', 'fleet=2,fleet=3', 'twice'],
    ['ROLLPOOL_CONCURRENCY', '2,3', 'two numbers'],
    ['ROLLPOOL_ALLOW_LOCAL', 'maybe', 'true or false'],
    ['ROLLPOOL_AGENT_SECONDS', '10s', 'number'],
    ['ROLLPOOL_AGENT_SECONDS', '0', 'above 0'],
    ['ROLLPOOL_MAX_TURNS', '1.5', 'whole'],
    ['ROLLPOOL_TEMPERATURE', '3', '2'],
    ['ROLLPOOL_TOP_P', 'NaN', 'number'],
    ['ROLLPOOL_LOG_LEVEL', 'loud', 'info'],
    ['DOCKER_HOST', 'docker', 'tcp://'],
  ])('%s=%s is refused with a line that says %s', (variable, value, said) => {
    expect(faultOf(variable, value)?.problem).toContain(said);
  });

  it('that does not exist is a fault that names the likely one', () => {
    expect(faultOf('ROLLPOOL_POLICY_ULR', 'http://gpu')?.problem).toContain('ROLLPOOL_POLICY_URL?');
    expect(faultOf('ROLLPOOL_SOMETHING_ELSE', '1')?.problem).toBe('there is no such variable');
  });

  it('that Kubernetes made of a service is none of ours', () => {
    expect(() =>
      loadSettings({
        ROLLPOOL_SERVICE_HOST: '10.0.0.1',
        ROLLPOOL_REDIS_SERVICE_PORT_TCP: '6379',
        ROLLPOOL_REDIS_PORT: 'tcp://10.0.0.1:6379',
        ROLLPOOL_REDIS_PORT_6379_TCP_ADDR: '10.0.0.1',
      }),
    ).not.toThrow();
  });

  it('of any text never ends in another error than SettingsError', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(
          'REDIS_URL',
          'ROLLPOOL_CONCURRENCY',
          'ROLLPOOL_LANES',
          'ROLLPOOL_POLICY_URL',
          'ROLLPOOL_SEED',
        ),
        fc.string(),
        (variable, value) => {
          try {
            loadSettings({ [variable]: value });
          } catch (fault) {
            expect(fault).toBeInstanceOf(SettingsError);
          }
        },
      ),
    );
  });
});

describe('faults', () => {
  it('come all at once, a line each', () => {
    const { faults, message } = refused({
      ROLLPOOL_MAX_TURNS: 'many',
      ROLLPOOL_LANES: 'x',
      ROLLPOOL_TYPO: '1',
    });
    expect(faults.map((fault) => fault.variable).sort()).toEqual([
      'ROLLPOOL_LANES',
      'ROLLPOOL_MAX_TURNS',
      'ROLLPOOL_TYPO',
    ]);
    expect(message.split('\n')).toHaveLength(4);
    expect(message).toContain('ROLLPOOL_MAX_TURNS: "many": must be a number');
  });

  it('are called by the flag that caused them', () => {
    const { faults } = refused({}, { ROLLPOOL_CONCURRENCY: { value: 'x', from: '--concurrency' } });
    expect(faults[0]?.variable).toBe('--concurrency');
  });

  it.each([
    [{ ROLLPOOL_LANES: 'claude_code-local' }, 'ROLLPOOL_LANES'],
    [{ ROLLPOOL_LANES: 'fleet', ROLLPOOL_CONCURRENCY: 'claude_code-e2b=2' }, 'ROLLPOOL_CONCURRENCY'],
    [{ FLEET_BASE_URL: 'http://fleet' }, 'FLEET_BASE_URL'],
    [{ ROLLPOOL_LOCK_SECONDS: '20' }, 'ROLLPOOL_LOCK_RENEW_SECONDS'],
    [{ ROLLPOOL_CONTEXT_TOKENS: '1000' }, 'ROLLPOOL_MAX_OUTPUT_TOKENS'],
  ] as [Record<string, string>, string][])('are also found between variables: %o', (env, variable) => {
    expect(refused(env).faults.map((fault) => fault.variable)).toEqual([variable]);
  });
});

describe('an override', () => {
  it('goes over the environment, and over a fault in it', () => {
    const settings = loadSettings(
      { ROLLPOOL_MODEL: 'a', ROLLPOOL_CONCURRENCY: 'nonsense' },
      { ROLLPOOL_MODEL: 'b', ROLLPOOL_CONCURRENCY: { value: '3', from: '--concurrency' } },
    );
    expect(settings.policy.model).toBe('b');
    expect(settings.worker.concurrency.everyLane).toBe(3);
  });
});

describe('a secret', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), `rollpool-${process.pid}-`));
    await writeFile(join(directory, 'key'), 'sk-from-a-file\n');
    await writeFile(join(directory, 'empty'), '\n');
    await writeFile(join(directory, 'url'), 'hunter2-is-no-url');
  });
  afterAll(() => rm(directory, { recursive: true }));

  it('may come from a file', () => {
    const settings = loadSettings({ ROLLPOOL_POLICY_API_KEY_FILE: join(directory, 'key') });
    expect(settings.policy.apiKey).toBe('sk-from-a-file');
  });

  it('given twice is a fault', () => {
    const { faults } = refused({
      ROLLPOOL_POLICY_API_KEY: 'sk-plain',
      ROLLPOOL_POLICY_API_KEY_FILE: join(directory, 'key'),
    });
    expect(faults).toEqual([
      {
        variable: 'ROLLPOOL_POLICY_API_KEY_FILE',
        problem: 'is given beside ROLLPOOL_POLICY_API_KEY; give one of the two',
      },
    ]);
  });

  it('whose file is missing or empty is a fault that names the file', () => {
    expect(faultOf('REDIS_URL_FILE', join(directory, 'absent'))?.problem).toContain('absent (ENOENT)');
    expect(faultOf('REDIS_URL_FILE', join(directory, 'empty'))?.problem).toContain('empty is empty');
  });

  it('stands in no message', () => {
    expect(refused({ REDIS_URL: 'hunter2' }).message).not.toContain('hunter2');
    expect(refused({ REDIS_URL_FILE: join(directory, 'url') }).message).not.toContain('hunter2');
  });
});
