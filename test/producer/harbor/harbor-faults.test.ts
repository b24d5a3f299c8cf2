import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { notes, readAll, taskPlace, toml, type Entries } from './task-directory.ts';

const { directory, faultsOf } = taskPlace();

describe('a Harbor task that could not be right is refused, and the file and the field are named:', () => {
  const none = { 'environment/Dockerfile': null };
  it.each<[string, Entries, string]>([
    ['GPUs', toml('[environment]\ngpus = 1'), 'task.toml: environment.gpus: is 1: sandboxes have no GPU'],
    ['a TPU', toml('[environment.tpu]\ntype = "v6e"'), 'task.toml: environment.tpu: '],
    ['Windows', toml('[environment]\nos = "Windows"'), 'task.toml: environment.os: is "Windows"'],
    ['MCP servers', toml('[[environment.mcp_servers]]\nname = "x"'), 'task.toml: environment.mcp_servers: '],
    [
      'a health check',
      toml('[environment.healthcheck]\ncommand = "x"'),
      'task.toml: environment.healthcheck: ',
    ],
    ['steps', toml('[[steps]]\nname = "one"'), 'task.toml: steps: a task of several steps'],
    [
      'several containers',
      { 'environment/docker-compose.yaml': '' },
      'environment/docker-compose.yaml: a task of',
    ],
    ['a past of the agent', { 'trajectory.json': '{}' }, 'trajectory.json: the agent cannot be given'],
    ['an image for its tests', toml('[verifier.environment]\ncpus = 1'), 'task.toml: verifier.environment: '],
    [
      'an image for its tests that is built',
      {
        ...toml('artifacts = ["out"]\n[verifier]\nenvironment_mode = "separate"'),
        'tests/Dockerfile': 'FROM a\n',
      },
      'tests/Dockerfile: the tests run in a sandbox of the same image',
    ],
    [
      'artifacts from elsewhere',
      toml('artifacts = ["out", "/logs/x"]\n[verifier]\nenvironment_mode = "separate"'),
      'task.toml: artifacts.1: is /logs/x: only what is in /app',
    ],
    [
      'tests that would see nothing',
      toml('[verifier]\nenvironment_mode = "separate"'),
      'task.toml: artifacts: names nothing in /app',
    ],
    ['collect hooks', toml('[[verifier.collect]]\ncommand = "x"'), 'task.toml: verifier.collect: '],
    [
      'more network for the tests',
      toml('[environment]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "public"'),
      'task.toml: verifier.network_mode: gives the verifier more',
    ],
    [
      'less network for the agent',
      toml('[agent]\nnetwork_mode = "no-network"'),
      'task.toml: agent.network_mode: gives the verifier more',
    ],
    [
      'hosts without a list',
      toml('[environment]\nallowed_hosts = ["a.b"]'),
      'task.toml: environment.allowed_hosts: stands beside no',
    ],
    [
      'a host that is none',
      toml('[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.b", "https://c.d"]'),
      'task.toml: environment.allowed_hosts.1: "https://c.d" must be a host',
    ],
    [
      'a secret of the host',
      toml('[verifier.env]\nKEY = "${OPENAI_API_KEY}"'),
      'task.toml: verifier.env.KEY: is to be OPENAI_API_KEY of the host',
    ],
    [
      'a variable of two lines',
      toml('[environment.env]\nKEY = "a\\nb"'),
      'task.toml: environment.env.KEY: has more',
    ],
    [
      'a variable without a name',
      toml('[environment.env]\n"a b" = "x"'),
      'task.toml: environment.env.a b: is no name',
    ],
    ['broken TOML', toml('[agent]\ntimeout_sec = 1\nuser =\n'), 'task.toml:3: broken TOML at column 7: '],
    ['a field of a wrong type', toml('[environment]\ncpus = "two"'), 'task.toml: environment.cpus: '],
    ['no time', toml('[agent]\ntimeout_sec = 0'), 'task.toml: agent.timeout_sec: '],
    [
      'two sizes',
      toml('[environment]\nmemory = "1G"\nmemory_mb = 2048'),
      'task.toml: environment.memory: is 1G',
    ],
    [
      'too little memory',
      toml('[environment]\nmemory_mb = 1'),
      'task.toml: environment.memory_mb: must be at least 64',
    ],
    ['another format', toml('schema_version = "2.0"'), 'task.toml: schema_version: is 2.0'],
    [
      'a relative directory',
      toml('[environment]\nworkdir = "app"'),
      'task.toml: environment.workdir: "app" is no absolute',
    ],
    [
      'a directory of the system',
      toml('[environment]\nworkdir = "/etc"'),
      'task.toml: environment.workdir: is /etc',
    ],
    ['no task.toml', { 'task.toml': null }, 'task.toml: there is no such file'],
    [
      'the first format',
      { 'task.toml': null, 'task.yaml': 'x' },
      'task.yaml: is of the first Terminal-Bench format',
    ],
    ['no instruction', { 'instruction.md': null }, 'instruction.md: there is no such file'],
    ['an empty instruction', { 'instruction.md': '# canary\n\n' }, 'instruction.md: is empty'],
    [
      'an instruction in Latin-1',
      { 'instruction.md': Buffer.from([0x61, 0xe9]) },
      'instruction.md: is not UTF-8',
    ],
    [
      'no image',
      none,
      'environment/Dockerfile: there is no such file, and task.toml has no environment.docker_image',
    ],
    [
      'a Dockerfile without an image',
      { 'environment/Dockerfile': 'RUN true\n' },
      'environment/Dockerfile: has no FROM',
    ],
    [
      'a Dockerfile in Latin-1',
      { 'environment/Dockerfile': Buffer.from([0xe9]) },
      'environment/Dockerfile: is not UTF-8',
    ],
    ['no tests', { 'tests/test.sh': null }, 'tests/test.sh: there is no such file'],
    [
      'tests for Windows',
      { 'tests/test.sh': null, 'tests/test.bat': 'x' },
      'tests/test.sh: there is no such file; test.bat is for Windows',
    ],
    [
      'tests with Windows line ends',
      { 'tests/test.sh': '#!/bin/bash\r\ntrue\r\n' },
      'tests/test.sh: has Windows line ends',
    ],
    [
      'a link out of the context',
      { 'environment/key': { link: '../solution' }, 'solution/x': 'x' },
      'environment/key: is a link that leads out',
    ],
    [
      'a link out of the task',
      { 'tests/passwd': { link: '/etc/passwd' } },
      'tests/passwd: is a link that leads out',
    ],
    ['a directory that leads out', { 'tests/all': { link: '/etc' } }, 'tests/all: is a link that leads out'],
    ['a link to nothing', { 'environment/x': { link: 'nowhere' } }, 'environment/x: is a link to nothing'],
    ['a link to itself', { 'environment/x': { link: 'x' } }, 'environment/x: is a link that leads to itself'],
    [
      'a link upwards',
      { 'environment/a/b': { link: '..' } },
      'environment/a/b: is a link to a directory that it is in',
    ],
    [
      'a file too large',
      { 'environment/blob': Buffer.alloc(9 * 2 ** 20) },
      'environment/blob: has 9437184 bytes: the files of a task together may have 8388608',
    ],
    [
      'files too large together',
      { 'environment/a': Buffer.alloc(5 * 2 ** 20), 'tests/b': Buffer.alloc(5 * 2 ** 20) },
      'tests/b: has 5242880 bytes',
    ],
  ])('%s', async (_what, over, fault) => {
    const said = await faultsOf(over);
    expect(said).toHaveLength(1);
    expect(said[0]).toContain(fault);
  });

  it('pipes among its files', async () => {
    const path = await directory();
    execFileSync('mkfifo', [join(path, 'tests', 'pipe')]);
    const { report } = await readAll(path);
    expect(notes(report.faults, path)).toEqual(['tests/pipe: is neither a file nor a directory']);
  });

  it('names that are not UTF-8', async () => {
    const path = await directory();
    execFileSync('bash', ['-c', `touch "$1"/$'caf\\xe9'`, 'bash', join(path, 'tests')]);
    const { report } = await readAll(path);
    expect(notes(report.faults, path)).toEqual(['tests/caf\uFFFD: has a name that is not UTF-8']);
  });

  it('every fault of one task at once', async () => {
    const said = await faultsOf({
      ...toml('[environment]\ngpus = 2\nos = "windows"'),
      'instruction.md': '',
      'tests/test.sh': null,
      'tests/x': { link: '/' },
    });
    expect(said.map((line) => line.replace(/: .*/, ''))).toEqual([
      'instruction.md',
      'task.toml',
      'task.toml',
      'tests/x',
      'tests/test.sh',
    ]);
  });
});
