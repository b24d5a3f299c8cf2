import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { probePython } from '../../../src/local-fleet/verifier/python.ts';
import { until } from '../../support/wait.ts';
import { bundled, noArguments, openScene, pickled, type Scene } from './scene.ts';

let scene: Scene;

/** Dead, and not yet noticed by whoever is to: in a container there may be nobody. */
function isZombie(pid: number): boolean {
  return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
}

beforeAll(() => {
  scene = openScene(
    `CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer TEXT, total REAL);
     INSERT INTO orders VALUES (1, 'ada', 10.5)`,
    `INSERT INTO orders VALUES (2, 'bob', 4)`,
  );
});

afterAll(() => scene[Symbol.dispose]());

describe('a verifier', () => {
  test('reads both databases and returns a score', async () => {
    const outcome = await scene.run(`
def verify(env, final_answer=None):
    env.instance.load()
    seed, current = env.db("seed"), env.db("current")
    print("[C] counted")
    return TASK_SUCCESSFUL_SCORE if current.table("orders").count() == seed.table("orders").count() + 1 else 0
`);
    expect(outcome).toMatchObject({ success: true, result: 1, error: null, stdout: '[C] counted\n' });
    expect(outcome.execution_time_ms).toBeGreaterThan(0);
  });

  test('gets its arguments as they were pickled, the instance id and the environment variables', async () => {
    const outcome = await scene.run(
      `
def verify(env, first, *, final_answer, conversation=None):
    return {"score": 1, "saw": [first, final_answer, conversation, env.instance_id, env.env_variables]}
`,
      {
        args: pickled([{ deep: [1, 2.5, null, true] }], { final_answer: 'Zürich 東京 🚆' }),
        env_variables: { CURRENT_DATE: '2026-01-12' },
      },
    );
    expect(outcome.error).toBeNull();
    expect(outcome.result).toEqual({
      score: 1,
      saw: [{ deep: [1, 2.5, null, true] }, 'Zürich 東京 🚆', null, 'i-1', { CURRENT_DATE: '2026-01-12' }],
    });
  });

  test('may import what the vendor offers, be decorated, and have modules of its own in the bundle', async () => {
    const source = `
import datetime
from dataclasses import dataclass
import fleet
from fleet import verifier, Environment
from fleet.verifiers import TASK_SUCCESSFUL_SCORE as GOOD, verifier as again
from fleet.verifiers.db import DatabaseSnapshot, IgnoreConfig
from fleet.verifiers.code import TASK_FAILED_SCORE
from checks.amounts import halved

@dataclass
class Found:
    score: float

@verifier(key="orders")
def verify(env: Environment) -> float:
    assert isinstance(env.db(), DatabaseSnapshot) and datetime.date(2026, 1, 1).year == 2026
    return Found(halved(GOOD))
`;
    const outcome = await scene.run(source, {
      function_name: 'verify',
      bundle: bundled(source, {
        'checks/__init__.py': '',
        'checks/amounts.py': 'def halved(x):\n    return x / 2\n',
      }),
    });
    expect(outcome).toMatchObject({ success: true, result: { score: 0.5 } });
  });

  test('may be async, whether or not it awaits its database', async () => {
    const awaiting = await scene.run(`
async def verify(env):
    await env.instance.load()
    rows = await env.db("current").table("orders").eq("buyer", "bob").select("id").all()
    answer = await env.db("seed").query("SELECT count(*) FROM orders")
    await env.db("seed").diff(env.db("current")).expect_only([{"table": "orders", "pk": 2, "after": "__added__"}])
    return rows[0]["id"] / 2 if answer.rows == [[1]] else 0
`);
    expect(awaiting).toMatchObject({ success: true, result: 1 });
    const plain = await scene.run(`
async def verify(env):
    return len(env.db("current").table("orders").all())
`);
    expect(plain).toMatchObject({ success: true, result: 2 });
  });

  test.each([
    ['float("nan")', 'NaN'],
    ['float("inf")', 'Infinity'],
    ['{"score": -float("inf")}', { score: '-Infinity' }],
    ['None', null],
    ['True', true],
    ['(1, {2})', [1, [2]]],
    ['"0.5"', '0.5'],
  ])('that returns %s keeps its meaning in JSON', async (value, result) => {
    expect(await scene.run(`def verify(env):\n    return ${value}\n`)).toMatchObject({
      success: true,
      result,
    });
  });
});

describe('a verifier that fails is an outcome with the words of its exception', () => {
  const failure = async (
    source: string,
    options = {},
  ): Promise<{ type: string; message: string; traceback: string }> => {
    const outcome = await scene.run(source, options);
    expect(outcome).toMatchObject({ success: false, result: null });
    if (outcome.error === null) throw new Error('no error');
    return outcome.error;
  };

  test('an exception, with the line of the verifier and none of ours', async () => {
    const error = await failure(`
def verify(env):
    return env.db("current").table("orders").first()["colour"]
`);
    expect(error).toMatchObject({ type: 'KeyError', message: "'colour'" });
    expect(error.traceback).toContain('File "verifier.py", line 3, in verify');
    expect(error.traceback).toContain('.first()["colour"]');
    expect(error.traceback).not.toContain('verifier_run');
  });

  test.each([
    ['def verify(env):\n    import sys\n    sys.exit(0)', 'SystemExit'],
    ['def verify(env):\n    return verify(env)', 'RecursionError'],
    ['def verify(env)\n    return 1', 'SyntaxError'],
    ['import nothing_of_the_kind\ndef verify(env):\n    return 1', 'ModuleNotFoundError'],
    ['def verify(env):\n    return "x" * (3 << 30)', 'MemoryError'],
    ['def verify(env):\n    import os\n    os._exit(3)', 'VerifierDied'],
    ['def verify(env):\n    import os\n    os.kill(os.getpid(), 11)', 'VerifierDied'],
    ['def other(env):\n    return 1', 'NameError'],
    ['def verify():\n    return 1', 'TypeError'],
    ['def verify(env):\n    return env.db("current").table("ordres").all()', 'OperationalError'],
    ['def verify(env):\n    return env.db("archive")', 'KeyError'],
    ['def verify(env):\n    return env.judge.grade("x")', 'NotImplementedError'],
  ])('%j is a %s', async (source, type) => {
    expect((await failure(source, { function_name: 'verify' })).type).toBe(type);
  });

  test('a bundle that is none, and one without a verifier', async () => {
    const source = 'def verify(env):\n    return 1\n';
    expect(await failure(source, { bundle: Buffer.from('PK nonsense') })).toMatchObject({
      type: 'ValueError',
      message: expect.stringContaining('not a ZIP with verifier.py') as string,
    });
  });

  test('arguments that name a global are refused before any of them is called', async () => {
    const evil = Buffer.from("cos\nsystem\n(S'true'\ntR.");
    expect(await failure('def verify(env):\n    return 1', { args: evil })).toMatchObject({
      type: 'UnpicklingError',
      message: expect.stringContaining('os.system') as string,
    });
  });
});

describe('what a verifier may use is limited', () => {
  test('time: a loop and a sleep are killed, and what they printed is kept', async () => {
    for (const [body, printed] of [
      ['while True: pass', 'loop\n'],
      ['import time; time.sleep(600)', 'sleep\n'],
    ] as const) {
      const outcome = await scene.run(
        `def verify(env):\n    print(${JSON.stringify(printed.trim())})\n    ${body}\n`,
        {
          timeout_seconds: 1,
        },
      );
      expect(outcome).toMatchObject({ success: false, stdout: printed, error: { type: 'TimeoutError' } });
    }
  });

  test('the caller: an abort kills it and rejects with the reason', async () => {
    const abort = new AbortController();
    const running = scene.run('def verify(env):\n    import time; time.sleep(600)', { signal: abort.signal });
    abort.abort(new Error('the server stops'));
    await expect(running).rejects.toThrow('the server stops');
    await expect(scene.run('def verify(env):\n    return 1', { signal: abort.signal })).rejects.toThrow(
      'the server stops',
    );
  });

  test('output: the beginning and the end of it are kept', async () => {
    const outcome = await scene.run(`
def verify(env):
    print("first")
    for i in range(20000):
        print("x" * 100)
    print("last")
    return 1
`);
    expect(outcome).toMatchObject({ success: true, result: 1 });
    expect(outcome.stdout.length).toBeLessThan(300_000);
    expect(outcome.stdout).toMatch(/^first\nx/);
    expect(outcome.stdout).toMatch(/bytes left out/);
    expect(outcome.stdout).toMatch(/x\nlast\n$/);
  });

  test('text that is no Unicode can be printed', async () => {
    expect(await scene.run('def verify(env):\n    print("\\ud800 Zürich")\n    return 1')).toMatchObject({
      result: 1,
      stdout: '\\ud800 Zürich\n',
    });
  });

  test('the environment: no variable of this process, no key', async () => {
    process.env['FLEET_API_KEY'] = 'sk_secret';
    try {
      const outcome = await scene.run('def verify(env):\n    import os\n    return sorted(os.environ)');
      expect(outcome.result).toEqual(['HOME', 'LANG', 'PATH', 'TMPDIR']);
    } finally {
      delete process.env['FLEET_API_KEY'];
    }
  });

  test('files: a big one cannot be written, and the databases cannot be changed', async () => {
    const outcome = await scene.run(`
def verify(env):
    found = []
    try:
        with open("big", "wb") as out:
            out.write(b"x" * (8 << 20))
    except OSError as error:
        found.append(type(error).__name__)
    answer = env.db("current").exec("DELETE FROM orders")
    found += [answer.success, "readonly" in answer.error]
    return found
`);
    expect(outcome.result).toEqual(['OSError', false, true]);
    const rows = await scene.run(
      'def verify(env):\n    return int(env.db("current").table("orders").count())',
    );
    expect(rows.result).toBe(2);
  });

  // The root user's processes are not counted, so the limit holds only for others.
  test.runIf(process.getuid?.() !== 0)('processes: it starts none', async () => {
    const outcome = await scene.run('def verify(env):\n    import os\n    return os.fork()');
    expect(outcome).toMatchObject({ success: false });
  });

  const system = '/usr/bin/python3';
  test.runIf(process.getuid?.() === 0 && existsSync(system))(
    'as root it runs as nobody, reads its databases and nothing private, and starts no process',
    async () => {
      const interpreter = { executable: system, version: '3', packages: [] };
      const outcome = await scene.run(
        `
def verify(env):
    import os, datetime
    found = [os.getuid() != 0, os.getgroups(), int(env.db("current").table("orders").count())]
    for attempt in (lambda: os.listdir("/root"), lambda: open("/etc/shadow"), os.fork, lambda: os.setuid(0),
                    lambda: open(env.db("current").db_path, "r+b")):
        try:
            found.append(repr(attempt()))
        except OSError as error:
            found.append(type(error).__name__)
    return found
`,
        { interpreter },
      );
      expect(outcome.error).toBeNull();
      expect(outcome.result).toEqual([
        true,
        [],
        2,
        'PermissionError',
        'PermissionError',
        'BlockingIOError',
        'PermissionError',
        'PermissionError',
      ]);
    },
  );

  test('processes: none outlives it, not even in a session of its own', async () => {
    const outcome = await scene.run(`
def verify(env):
    import os, time
    try:
        pid = os.fork()
    except OSError:
        return 0
    if pid == 0:
        os.setsid()
        os.closerange(0, 10)
        time.sleep(600)
    return pid
`);
    expect(outcome).toMatchObject({ success: true });
    const pid = Number(outcome.result);
    if (pid > 0) await until(() => !existsSync(`/proc/${pid}`) || isZombie(pid), 'it has ended');
  });

  test('nothing stays behind', async () => {
    await scene.run('def verify(env):\n    open("left", "w").write("x")\n    return 1', {
      args: noArguments,
    });
    expect(readdirSync(tmpdir()).filter((name) => name.startsWith(`rp-verifier-${process.pid}-`))).toEqual(
      [],
    );
  });
});

test('the interpreter is found, with its version', async () => {
  const python = await probePython();
  expect(python.version).toMatch(/^3\.\d+\.\d+$/);
  expect(existsSync(python.executable)).toBe(true);
});

test('no python3 on the PATH is one clear line', async () => {
  const path = process.env['PATH'];
  process.env['PATH'] = scene.directory;
  try {
    await expect(probePython()).rejects.toThrow('there is none on the PATH');
  } finally {
    process.env['PATH'] = path;
  }
});
