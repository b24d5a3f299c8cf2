import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  createSandboxProvider,
  findClaudeCli,
  type Sandbox,
  type SandboxProvider,
} from '../../src/sandbox/index.ts';
import { until } from '../support/wait.ts';
import { docker, haveDocker } from './docker-daemon.ts';
import { countProcesses, openGateway, requestOf, uniqueSleep } from './fixture.ts';

describe.runIf(haveDocker)('a docker sandbox holds its agent', () => {
  let gateway: Awaited<ReturnType<typeof openGateway>>;
  let provider: SandboxProvider;
  let shared: Sandbox;
  const create = (overrides?: Parameters<typeof requestOf>[1]): Promise<Sandbox> =>
    provider.create(requestOf(gateway.directory, overrides));

  beforeAll(async () => {
    gateway = await openGateway();
    provider = createSandboxProvider('docker', { pidsLimit: 100 });
    shared = await create({ cli_binary: await findClaudeCli() });
  });
  afterAll(async () => {
    await shared[Symbol.asyncDispose]();
    await provider[Symbol.asyncDispose]();
    await gateway[Symbol.asyncDispose]();
  });

  test('gives agent and grader no capability and no way to one', async () => {
    for (const user of ['agent', 'grader'] as const) {
      const { stdout } = await shared.exec(
        'id -u; grep -E "^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):" /proc/self/status',
        {
          user,
          timeout_ms: 30_000,
        },
      );
      expect(stdout.replaceAll('\t', ' ').split('\n')).toEqual([
        user === 'agent' ? '1000' : '1001',
        'CapInh: 0000000000000000',
        'CapPrm: 0000000000000000',
        'CapEff: 0000000000000000',
        'CapAmb: 0000000000000000',
        'NoNewPrivs: 1',
        'Seccomp: 2',
        '',
      ]);
    }
  });

  test('does not let a set-user-id program make the agent root', async () => {
    await shared.exec('cp /usr/bin/id /usr/local/bin/rootid && chmod 4755 /usr/local/bin/rootid', {
      timeout_ms: 30_000,
    });
    const found = await shared.exec('rootid -u; kill -9 1 2>&1; kill -STOP 7 2>&1; touch /etc/x 2>&1; true', {
      user: 'agent',
      timeout_ms: 30_000,
    });
    expect(found.stdout).toContain('1000\n');
    expect(found.stdout).toContain('Operation not permitted');
    expect(found.stdout).toContain('Permission denied');
  });

  test('has a network of nothing but itself', async () => {
    const found = await shared.exec(
      `cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '
       tail -n +2 /proc/net/route | wc -l
       for target in 1.1.1.1/53 169.254.169.254/80 172.17.0.1/22; do (exec 3<>/dev/tcp/$target) 2>&1 | grep -o -m 1 'Network is unreachable'; done
       python3 -c 'import socket; socket.getaddrinfo("example.com", 80)' 2>&1 | tail -n 1 | grep -o gaierror`,
      { user: 'agent', timeout_ms: 60_000 },
    );
    const lines = found.stdout.trim().split('\n');
    expect(lines.filter((line) => /^(eth|ens|wlan)/.test(line))).toEqual([]);
    expect(lines.filter((line) => line === 'Network is unreachable')).toHaveLength(3);
    expect(lines.at(-1)).toBe('gaierror');
  });

  test('has a network when the task asks for one', async () => {
    await using sandbox = await create({ spec: { network: 'open' } });
    const found = await sandbox.exec('tail -n +2 /proc/net/route | wc -l', {
      user: 'agent',
      timeout_ms: 30_000,
    });
    expect(Number(found.stdout)).toBeGreaterThan(0);
  });

  test('mounts the CLI and the gateway so that they can be used and not changed', async () => {
    expect(shared.cli_path).toBe('/opt/rollpool/claude');
    const version = await shared.exec([shared.cli_path!, '--version'], { user: 'agent', timeout_ms: 60_000 });
    expect(version.stdout).toMatch(/^2\.1\.332 /);
    const found = await shared.exec(
      `touch /gw/x; echo x >>${shared.cli_path}; rm -f ${shared.gateway_socket}`,
      {
        timeout_ms: 30_000,
      },
    );
    expect(found.stderr.match(/Read-only file system|Text file busy/g)).toHaveLength(3);
  });

  test('notices that memory ran out inside, and goes on', async () => {
    await using sandbox = await create({ spec: { memory_mb: 128 } });
    expect(await sandbox.state()).toBe('running');
    const found = await sandbox.exec(['python3', '-c', 'bytearray(400 * 2**20)'], {
      user: 'agent',
      timeout_ms: 60_000,
    });
    expect(found.exit_code).toBe(137);
    expect(await sandbox.state()).toBe('oom');
    expect((await sandbox.exec('echo on', { timeout_ms: 30_000 })).stdout).toBe('on\n');
  });

  test('kills a fork bomb, and what it hid, while no process can be started', async () => {
    await using sandbox = await create();
    const sleep = uniqueSleep();
    await using bomb = await sandbox.spawn(`trap '' TERM; setsid sleep ${sleep} & :(){ :|:& };: ; wait`, {
      user: 'agent',
    });
    let stderr = '';
    bomb.stdout.resume();
    bomb.stderr.on('data', (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-1000)));
    await until(() => stderr.includes('Resource temporarily unavailable'), 'the limit is met');
    await sandbox.killAgent(60_000);
    expect(await countProcesses(sandbox, sleep)).toBe(0);
    // The limit is what it was: an exec works, and many processes do.
    const found = await sandbox.exec('for i in {1..50}; do sleep 0.2 & done; wait; echo all', {
      user: 'grader',
      timeout_ms: 60_000,
    });
    expect(found).toMatchObject({ exit_code: 0, stdout: 'all\n', stderr: '' });
  });

  test('kills an agent that kills whoever comes to kill it, and one that hops from process to process', async () => {
    await using sandbox = await create();
    const hopper = `
import os, signal, sys, threading, time
if os.fork() == 0:
    os.setsid()
    while True:
        try: os.kill(-1, signal.SIGKILL)
        except OSError: pass
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork(): os._exit(0)
        except OSError: pass
sys.exit()`;
    await sandbox.exec(['python3', '-c', hopper], { user: 'agent', timeout_ms: 30_000 });
    // A process whose first thread ended looks like a zombie and is none.
    const headless = `
import ctypes, threading, time, os
if os.fork(): os._exit(0)
os.setsid()
threading.Thread(target=lambda: time.sleep(300)).start()
ctypes.CDLL(None).pthread_exit(None)`;
    await sandbox.exec(['python3', '-c', headless], { user: 'agent', timeout_ms: 30_000 });
    await sandbox.killAgent(60_000);
    const left = await sandbox.exec(
      `for file in /proc/[0-9]*/status; do
         if grep -q '^Uid:.1000' $file && ! { grep -q '^State:.Z' $file && grep -q '^Threads:.1$' $file; }; then cat $file; fi
       done 2>/dev/null`,
      { timeout_ms: 60_000 },
    );
    expect(left.stdout).toBe('');
  });

  test('does not take its own failure to start a command for the command’s', async () => {
    const failing = shared.exec('true', { cwd: '/nowhere', user: 'grader', timeout_ms: 30_000 });
    await expect(failing).rejects.toMatchObject({ failure: { class: 'infra', code: 'command_not_started' } });
    const own = await shared.exec('echo OCI runtime exec failed; exit 126', {
      user: 'grader',
      timeout_ms: 30_000,
    });
    expect(own.exit_code).toBe(126);
  });

  test('keeps root out of what a task could want from the host', async () => {
    const { HostConfig, Config } = await docker.getContainer(shared.id).inspect();
    expect(HostConfig.Privileged).toBe(false);
    expect(HostConfig.CapDrop).toEqual(['ALL']);
    expect(HostConfig.MemorySwap).toBe(HostConfig.Memory);
    expect(HostConfig.PidsLimit).toBe(100);
    expect(HostConfig.LogConfig).toEqual({
      Type: 'json-file',
      Config: { 'max-size': '1m', 'max-file': '1' },
    });
    expect(JSON.stringify(Config)).not.toContain(readFileSync('/proc/self/cmdline', 'utf8'));
    const devices = await shared.exec('mknod /tmp/disk b 254 0; mount -t tmpfs none /mnt; cat /dev/vda', {
      timeout_ms: 30_000,
    });
    expect(devices.exit_code).not.toBe(0);
    expect(devices.stdout).toBe('');
  });
});
