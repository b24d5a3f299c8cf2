import { execFileSync, spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { taskPlace, toml } from './task-directory.ts';

const { directory, taskOf } = taskPlace();

describe('a Harbor task', () => {
  it('becomes a task with its image, its limits, its tests and its metadata', async () => {
    const { task, said } = await taskOf({
      'task.toml': [
        'schema_version = "1.4"',
        '[task]\nname = "acme/answer"\nkeywords = ["easy"]',
        '[metadata]\ndifficulty = "easy"\nday = 2026-01-02\nworst = inf',
        '[agent]\ntimeout_sec = 900.0',
        '[verifier]\ntimeout_sec = 1200',
        '[environment]\nbuild_timeout_sec = 300\ncpus = 2\nmemory_mb = 4096\nstorage_mb = 10240\ngpus = 0\nnetwork_mode = "no-network"\nmcp_servers = []',
        '[environment.env]\n[solution.env]\nKEY = "x"',
      ].join('\n'),
      'instruction.md': '<!-- BENCHMARK canary 26b5 -->\n# Canary GUID\n\nDo it.\r\nNow.\n',
      'environment/data/run.sh': { script: '#!/bin/sh\n' },
      'environment/data/pixel.bin': new Uint8Array([0, 255, 128]),
      'tests/lib/check.py': 'print(1)\n',
      'tests/lib/more.sh': { script: '' },
      'solution/solve.sh': 'echo 42 > answer.txt\n',
      'README.md': 'about it',
    });
    expect(said).toEqual([]);
    expect(task).toEqual({
      task_key: 'acme/answer',
      kind: 'claude_code',
      prompt: 'Do it.\nNow.\n',
      sandbox: {
        build: {
          files: {
            Dockerfile: 'FROM debian:bookworm\nWORKDIR /app\n',
            'data/run.sh': '#!/bin/sh\n',
            'data/pixel.bin': { base64: 'AP+A' },
          },
          executable: ['data/run.sh'],
          seconds: 300,
        },
        cpus: 2,
        memory_mb: 4096,
        disk_mb: 10240,
        network: 'none',
        workdir: '/app',
      },
      files: {},
      setup: ['mkdir -p /logs/agent /logs/artifacts && chmod 777 /logs/agent /logs/artifacts'],
      verify: {
        files: {
          'test.sh': '#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n',
          'lib/check.py': 'print(1)\n',
          'lib/more.sh': '',
        },
        dir: '/tests',
        user: 'root',
        commands: [
          'chmod +x /tests/lib/more.sh /tests/test.sh && /tests/test.sh || exit $(($? == 126 || $? == 127 ? 1 : $?))',
        ],
        reward: 'harbor',
        reward_range: [0, 1],
      },
      limits: { agent_seconds: 900, grade_seconds: 1200, grade_total_seconds: 1200 },
      metadata: {
        harbor: {
          directory: expect.stringMatching(/^task-\d+$/) as string,
          schema_version: '1.4',
          task: { name: 'acme/answer', keywords: ['easy'] },
          metadata: { difficulty: 'easy', day: '2026-01-02', worst: 'Infinity' },
        },
      },
    });
  });

  it("with nothing in its task.toml has Harbor's defaults: its directory's name, the open network, 600 s for its tests", async () => {
    const { task } = await taskOf(toml(''));
    expect(task.task_key).toMatch(/^task-\d+$/);
    expect(task.sandbox).toMatchObject({ network: 'open', cpus: 1, memory_mb: 2048 });
    expect(task.sandbox.disk_mb).toBeUndefined();
    expect(task.limits).toEqual({ grade_seconds: 600, grade_total_seconds: 600 });
  });

  it('of version 1.0 has its older names of fields, and Windows line ends', async () => {
    const { task, said } = await taskOf(
      toml(
        '\uFEFFversion = "1.0"\r\n[environment]\r\nmemory = "4G"\r\nstorage = "512M"\r\nallow_internet = false\r\n',
      ),
    );
    expect(task.sandbox).toMatchObject({ memory_mb: 4096, disk_mb: 512, network: 'none' });
    expect(said).toEqual([]);
  });

  it('that names an image has that one, though it has a Dockerfile: only its WORKDIR counts then', async () => {
    const { task, said } = await taskOf({
      'task.toml': '[environment]\ndocker_image = "acme/x:1"\n',
      'environment/Dockerfile': 'FROM a\nWORKDIR /srv/it\n',
      'environment/data.txt': 'x',
    });
    expect(task.sandbox).toMatchObject({ image: 'acme/x:1', workdir: '/srv/it' });
    expect(task.sandbox.build).toBeUndefined();
    expect(task.files).toEqual({});
    expect(said).toEqual([]);
  });

  it('that names an image and has no Dockerfile gets the files of environment/ into its working directory', async () => {
    const { task, said } = await taskOf({
      'task.toml': '[environment]\ndocker_image = "acme/x:1"\n',
      'environment/Dockerfile': null,
      'environment/data.txt': 'x',
      'environment/a b/go.sh': { script: 'true' },
    });
    expect(task.files).toEqual({ 'a b/go.sh': 'true', 'data.txt': 'x' });
    expect(task.setup.at(-1)).toBe("chmod +x -- './a b/go.sh'");
    expect(task.sandbox.workdir).toBe('/app');
    expect(said).toEqual([
      'environment/Dockerfile: WORKDIR: is not known from the task: /app is taken; environment.workdir can say another',
    ]);
  });

  it('has the variables of environment.env in its image, and those of verifier.env around its tests', async () => {
    const over =
      '[environment.env]\nB = "${HOME:-/x y}"\nA = "say \\"hi\\" to $you"\n[verifier.env]\nMODE = "it\'s"\n';
    const built = await taskOf(toml(over));
    expect(built.task.sandbox.build!.files['Dockerfile']).toBe(
      'FROM debian:bookworm\nWORKDIR /app\nENV A="say \\"hi\\" to \\$you"\nENV B="/x y"\n',
    );
    expect(built.task.verify.commands[0]).toContain("&& MODE='it'\\''s' /tests/test.sh ||");
    expect(built.said).toEqual([
      "task.toml: environment.env.B: has its default: tasks are given nothing of the host's environment",
    ]);
    const named = await taskOf(
      toml(`[environment]\ndocker_image = "acme/x:1"\n[environment.env]\nA = "1"\n`),
    );
    expect(named.task.sandbox.build!.files).toEqual({ Dockerfile: 'FROM acme/x:1\nENV A="1"\n' });
  });

  it('has the network that its agent may use', async () => {
    const network = async (text: string): Promise<unknown> => (await taskOf(toml(text))).task.sandbox.network;
    expect(await network('[environment]\nnetwork_mode = "public"')).toBe('open');
    expect(await network('[environment]\nallow_internet = true\nnetwork_mode = "no-network"')).toBe('none');
    expect(
      await network(
        '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["pypi.org", "*.debian.org"]',
      ),
    ).toEqual({ allow: ['pypi.org', '*.debian.org'] });
    expect(await network('[environment]\nnetwork_mode = "allowlist"')).toBe('none');
    expect(await network('[environment]\nallow_internet = false\n[agent]\nnetwork_mode = "public"')).toBe(
      'open',
    );
    expect(
      await network(
        '[agent]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.b"]\n[verifier]\nnetwork_mode = "no-network"',
      ),
    ).toEqual({ allow: ['a.b'] });
  });

  it('whose tests want an environment of their own is graded in a fresh sandbox with its artifacts', async () => {
    const { task, said } = await taskOf(
      toml(
        'artifacts = ["/app/out", { source = "notes.txt" }, "/app"]\n[verifier]\nenvironment_mode = "separate"\n',
      ),
    );
    expect(task.verify).toMatchObject({ sandbox: 'fresh', artifacts: ['out', 'notes.txt', '.'] });
    expect(said).toEqual([]);
  });

  it('keeps what its .dockerignore leaves out of the context, and no litter of tools', async () => {
    const { task } = await taskOf({
      'environment/.dockerignore': 'Dockerfile\nbig\n*.log\n!keep.log\n',
      'environment/big/blob': Buffer.alloc(9 * 2 ** 20),
      'environment/a.log': 'x',
      'environment/keep.log': 'x',
      'environment/.DS_Store': 'x',
      'tests/__pycache__/check.cpython-311.pyc': 'x',
    });
    expect(Object.keys(task.sandbox.build!.files)).toEqual(['.dockerignore', 'Dockerfile', 'keep.log']);
    expect(Object.keys(task.verify.files)).toEqual(['test.sh']);
  });

  it('follows links that stay inside, to files and to directories', async () => {
    const { task } = await taskOf({
      'environment/src/main.py': 'print(1)\n',
      'environment/copy': { link: 'src' },
      'environment/again.py': { link: 'copy/main.py' },
      'tests/shared.txt': { link: '../environment/src/main.py' },
    });
    expect(task.sandbox.build!.files).toMatchObject({
      'again.py': 'print(1)\n',
      'copy/main.py': 'print(1)\n',
    });
    expect(task.verify.files['shared.txt']).toBe('print(1)\n');
  });

  it('may have files of any name, and texts that are no plain ones', async () => {
    const names = ['a\\b.txt', 'con.txt', 'C:x', ' space ', "qu'ote", '名前', '-rf', '$HOME'];
    const { task } = await taskOf({
      ...Object.fromEntries(names.map((name) => [`tests/${name}`, { script: name }])),
      'tests/bom.txt': '\uFEFFx',
      'tests/crlf.txt': 'a\r\n',
      'tests/nul': 'a\0b',
      'tests/latin1': Buffer.from([0xe9]),
    });
    expect(task.verify.files).toMatchObject({
      ...Object.fromEntries(names.map((name) => [name, name])),
      'bom.txt': '\uFEFFx',
      'crlf.txt': 'a\r\n',
      nul: { base64: 'YQBi' },
      latin1: { base64: '6Q==' },
    });
    const [chmod] = task.verify.commands[0]!.split(' && ');
    const words = execFileSync('bash', ['-c', `printf '%s\\n' ${chmod!.slice('chmod +x '.length)}`]);
    expect(words.toString().trimEnd().split('\n').sort()).toEqual(
      [...names, 'test.sh'].map((name) => `/tests/${name}`).sort(),
    );
  });

  it.each([
    ['[agent]\nuser = "agent"', 'task.toml: agent.user: is agent; the agent runs as'],
    ['[verifier]\nuser = 1000', 'task.toml: verifier.user: is 1000; the tests run as root'],
    ['[environment]\nskills_dir = "/skills"', 'task.toml: environment.skills_dir: the agent is not given'],
    ['schema_version = "1.9"', 'task.toml: schema_version: is 1.9; what came after 1.4 is not known'],
    ['artifacts = ["/app/x"]', 'task.toml: artifacts: are not kept'],
    ['[environment]\ncpu = 2', 'task.toml: environment.cpu: is no field of the format'],
    ['split = "train"', 'task.toml: split: is no field of the format'],
    ['[verifier]\nnetwork_mode = "no-network"', 'task.toml: verifier.network_mode: gives the verifier less'],
  ])('with %j loads, and what is left aside is said', async (text, warning) => {
    const { said } = await taskOf(toml(text));
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(warning);
  });

  it.each([
    ['ENTRYPOINT', 'FROM a\nWORKDIR /x\nENTRYPOINT ["/serve"]\n', 'is not run'],
    ['WORKDIR', 'FROM a\nWORKDIR $BASE/x\n', '$BASE has no value in this file: taken as /x'],
    ['WORKDIR', 'FROM a\nWORKDIR /\n', 'is /, which cannot be given to the agent: /app is taken'],
  ])('whose Dockerfile has a doubtful %s loads, and that is said', async (field, text, warning) => {
    const { said } = await taskOf({ 'environment/Dockerfile': text });
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(`environment/Dockerfile: ${field}: ${warning}`);
  });
});

it.each([
  ['exit 0', 0],
  ['exit 3', 3],
  ['/app/never-written', 1],
  ['/tests', 1],
  ['kill -9 $$', 137],
])(
  'tests that end with %j end with %j: a program that is not there is no fault of theirs',
  async (line, code) => {
    const { task } = await taskOf({
      'tests/test.sh': { script: `# no first line\n[ -n "$BASH" ] || exit 9\n${line}\n` },
    });
    const tests = await directory({
      'tests/test.sh': task.verify.files['test.sh'] as string,
    });
    // Where it would be in a sandbox.
    const command = task.verify.commands[0]!.replaceAll('/tests/', `${tests}/tests/`);
    expect(spawnSync('bash', ['--noprofile', '--norc', '-c', command]).status).toBe(code);
  },
);
