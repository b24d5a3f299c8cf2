import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { haveDocker } from '../../sandbox/docker-daemon.ts';
import { act, grade } from '../grade.ts';
import { openSandbox } from '../open-sandbox.ts';
import { openArena, type Arena } from './arena.ts';

const files = { 'tests/conftest.py': 'original = 1\n', 'work.py': '' };
/** Its words name pytest; what it runs shows whether settings of the agent's are still there. */
const verify = {
  commands: [
    'true || pytest; ! test -e conftest.py && grep -q original tests/conftest.py && grep -q solved work.py',
  ],
};

describe.skipIf(!haveDocker)('an agent that makes putting settings back hard', () => {
  let arena: Arena;
  beforeAll(async () => {
    arena = await openArena('docker');
  });
  afterAll(async () => arena?.[Symbol.asyncDispose]());
  beforeEach(async () => arena.reset({ files }));

  it('gets 0 for so many of them that nobody reads all', async () => {
    const agent = `echo solved > work.py; head -c 65000 /dev/zero | tr '\\0' '#' > conftest.py
      for i in {1..400}; do mkdir a$i; ln conftest.py a$i; done`;
    const graded = await arena.attack(agent, verify, { task_parts: { files } });
    expect(graded).toMatchObject({ reward: 0, metrics: { settings_unreadable: true } });
  });

  it.each([
    [
      'one below a name that no file can be written to',
      `mkdir $'a\\nb'; printf '[tool.pytest.ini_options]\\nx = 1\\n[tool.other]\\ny = 1\\n' > $'a\\nb'/pyproject.toml`,
    ],
    ['a link in place of their directory', 'rm -r tests; ln -s /etc tests'],
    ['a file in place of their directory', 'rm -r tests; echo > tests'],
    ['a directory in place of one', 'rm tests/conftest.py; mkdir -p tests/conftest.py/x'],
  ])('is graded by the task’s own whatever it leaves: %s', async (_what, agent) => {
    const graded = await arena.attack(`${agent}; echo solved > work.py; echo > conftest.py`, verify, {
      task_parts: { files },
    });
    expect(graded.verify[0]?.stderr_tail).toBe('');
    expect(graded).toMatchObject({ reward: 1 });
  });
});

/** Directories below each other, each with a file of this name. */
const nested = (name: string, levels: number): string => `python3 - <<'PY'
import os
for _ in range(${levels}):
    os.close(os.open('${name}', os.O_CREAT | os.O_WRONLY)); os.mkdir('d'); os.chdir('d')
PY`;

describe.skipIf(!haveDocker)('an agent whose files are hard to take over', () => {
  it.each([
    ['names that are no text', `touch out/$'\\xff'`, { reward: 1, metrics: { artifact_files: 1 } }],
    [
      'paths that nobody can open',
      `cd out; name=$(printf 'n%.0s' {1..200}); for i in {1..25}; do mkdir $name; cd $name; done; touch x`,
      { reward: 1, metrics: { artifact_files: 1 } },
    ],
    [
      'a tree whose names alone are hundreds of megabytes',
      `cd out; ${nested('f', 8_000)}`,
      { reward: 0, metrics: { artifacts_too_large: true } },
    ],
  ])('is graded all the same: %s', async (_what, agent, expected) => {
    await using arena = await openArena('docker');
    const graded = await arena.attack(`mkdir out; echo ok > out/ok; ${agent}`, {
      commands: ['grep -q ok out/ok'],
      sandbox: 'fresh',
      artifacts: ['out'],
    });
    expect(graded).toMatchObject(expected);
  });
});

describe.skipIf(!haveDocker)('an agent that is gone', () => {
  it('leaves its verifier memory, whatever it kept in shared memory and empty files', async () => {
    await using opened = await openSandbox('docker', { memoryMb: 256 });
    await act(
      opened.sandbox,
      `python3 - <<'PY'
import ctypes, os
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
if os.fork() == 0:
    for _ in range(40):
        ctypes.memset(libc.shmat(libc.shmget(0, 4 << 20, 0o1666), None, 0), 1, 4 << 20)
    os._exit(0)
assert os.wait()[1] == 0
for directory in ['/tmp', '/dev/shm']:
    try:
        for number in range(200_000):
            os.close(os.open(f'{directory}/{number}', os.O_CREAT | os.O_WRONLY))
        raise SystemExit(f'{directory} took them all')
    except OSError as error:
        print(directory, number, error)
PY`,
    );
    const graded = await grade(opened.sandbox, {
      commands: [`python3 -c 'print(len(bytearray(b"x") * (100 << 20)))'`],
    });
    expect(graded).toMatchObject({ reward: 1 });
  });
});
