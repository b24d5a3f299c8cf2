import { mkdtemp, rm } from 'node:fs/promises';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startCommand } from '../e2e/command.ts';
import { invoke } from './invoke.ts';

const environment = { PATH: process.env['PATH'] ?? '' };

describe('rollpool local-fleet', () => {
  it('serves the shipped environments until it is told to stop, and leaves nothing', async () => {
    const command = startCommand(['local-fleet', '--json', '--instance-limit', '3'], {
      ...environment,
      FLEET_API_KEY: 'sk_test',
    });
    const [line] = await command.says(/^\{.*\}$/m, 'it listens');
    const { url, environments } = JSON.parse(line) as {
      url: string;
      environments: { env_key: string; version: string }[];
    };
    expect(environments.length).toBeGreaterThan(0);
    const ask = async (path: string, init: RequestInit = {}): Promise<Response> =>
      fetch(`${url}${path}`, { ...init, headers: { authorization: 'Bearer sk_test' } });
    expect((await fetch(`${url}/v1/account`)).status).toBe(401);
    expect(await (await ask('/v1/account')).json()).toMatchObject({ instance_limit: 3, instance_count: 0 });
    const env_key = environments[0]?.env_key;
    const made = await ask('/v1/env/instances', { method: 'POST', body: JSON.stringify({ env_key }) });
    expect(await made.json()).toMatchObject({ env_key, status: 'running' });
    const own = (): string[] => readdirSync(tmpdir()).filter((name) => name.includes(`-${command.pid}-`));
    expect(own()).toHaveLength(1);
    command.kill('SIGTERM');
    expect(await command.ended).toMatchObject({ code: 0, signal: null, stderr: '' });
    expect(own()).toEqual([]);
  });

  it('says in one line why it cannot start', async () => {
    const empty = await mkdtemp(join(tmpdir(), `rp-empty-${process.pid}-`));
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as AddressInfo;
    try {
      expect(await invoke(['local-fleet', '--environments', empty])).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/^rollpool: .*environment\.json.*\n$/),
      });
      expect(await invoke(['local-fleet', '--port', String(port)])).toMatchObject({
        code: 2,
        stderr: `rollpool: cannot listen on 127.0.0.1:${port} (EADDRINUSE)\n`,
      });
      expect((await invoke(['local-fleet', '--instance-limit', '0'])).code).toBe(2);
    } finally {
      taken.close();
      await rm(empty, { recursive: true });
    }
  });
});
