// Other gateways, installed from their packages into a directory of their own when the bench runs.
import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { Pool } from 'undici';
import { anthropicRequest, openaiRequest, type Size } from './gateway-bodies.ts';
import { call, cpuSeconds, type Target } from './gateway-load.ts';

export interface Peer extends AsyncDisposable {
  readonly target: (size: Size) => Target;
}

interface Recipe {
  readonly name: string;
  /** Installs it, unless it stands there already. */
  readonly install: (directory: string) => Promise<void>;
  readonly command: (directory: string, upstream: string, port: number) => Promise<readonly string[]>;
  readonly speaks: 'openai' | 'anthropic';
  readonly headers: (upstream: string) => Record<string, string>;
}

async function npmInstall(directory: string, name: string, version: string): Promise<void> {
  if (existsSync(join(directory, 'node_modules', name))) return;
  await writeFile(join(directory, 'package.json'), '{"private":true}');
  await execa('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', `${name}@${version}`], {
    cwd: directory,
    timeout: 300_000,
  });
}

/** It does not start without one that is hard to guess. */
const litellmKey = `sk-${randomBytes(24).toString('hex')}`;

const recipes: readonly Recipe[] = [
  {
    name: 'LiteLLM proxy',
    async install(directory) {
      if (existsSync(join(directory, 'venv', 'bin', 'litellm'))) return;
      await execa('python3', ['-m', 'venv', 'venv'], { cwd: directory, timeout: 120_000 });
      const pip = join(directory, 'venv', 'bin', 'pip');
      await execa(pip, ['install', '-q', 'litellm[proxy]'], { timeout: 600_000 });
    },
    async command(directory, upstream, port) {
      const config = {
        model_list: [
          {
            model_name: 'bench',
            litellm_params: { model: 'hosted_vllm/bench', api_base: `${upstream}/v1`, api_key: 'x' },
          },
        ],
        litellm_settings: { telemetry: false, drop_params: true },
        general_settings: { master_key: litellmKey },
      };
      await writeFile(join(directory, 'config.yaml'), JSON.stringify(config));
      const at = ['--host', '127.0.0.1', '--port', String(port), '--num_workers', '1'];
      return [join(directory, 'venv/bin/litellm'), '--config', join(directory, 'config.yaml'), ...at];
    },
    speaks: 'openai',
    headers: () => ({ authorization: `Bearer ${litellmKey}` }),
  },
  {
    name: '@portkey-ai/gateway 1.15.2',
    install: (directory) => npmInstall(directory, '@portkey-ai/gateway', '1.15.2'),
    command: async (directory, _upstream, port) => [
      process.execPath,
      join(directory, 'node_modules/@portkey-ai/gateway/build/start-server.js'),
      `--port=${port}`,
      '--headless',
    ],
    speaks: 'openai',
    headers: (upstream) => ({
      authorization: 'Bearer x',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `${upstream}/v1`,
    }),
  },
  {
    name: 'claude-code-router 2.0.0',
    install: (directory) => npmInstall(directory, '@musistudio/claude-code-router', '2.0.0'),
    async command(directory, upstream, port) {
      const home = join(directory, '.claude-code-router');
      await mkdir(home, { recursive: true });
      const config = {
        PORT: port,
        HOST: '127.0.0.1',
        LOG: false,
        Providers: [
          { name: 'bench', api_base_url: `${upstream}/v1/chat/completions`, api_key: 'x', models: ['bench'] },
        ],
        Router: { default: 'bench,bench' },
      };
      await writeFile(join(home, 'config.json'), JSON.stringify(config));
      return [
        process.execPath,
        join(directory, 'node_modules/@musistudio/claude-code-router/dist/cli.js'),
        'start',
      ];
    },
    speaks: 'anthropic',
    headers: () => ({ 'x-api-key': 'x', 'anthropic-version': '2023-06-01' }),
  },
];

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  process.kill(-child.pid!, 'SIGKILL');
  await ended;
}

async function ready(child: ChildProcess, target: Target): Promise<void> {
  for (const deadline = Date.now() + 90_000; ;) {
    try {
      await call(target, 0);
      return;
    } catch (error) {
      if (Date.now() > deadline || child.exitCode !== null) throw error;
    }
    await sleep(500);
  }
}

/** Each peer in turn: installed, started, measured by `measure`, stopped. What does not come up is told with its reason. */
export async function eachPeer(
  root: string,
  upstream: string,
  measure: (name: string, peer: (size: Size) => Target) => Promise<void>,
  failed: (name: string, reason: string) => void,
): Promise<void> {
  for (const recipe of recipes) {
    const directory = join(root, recipe.name.replaceAll(/[^a-z0-9.]+/gi, '-'));
    await mkdir(directory, { recursive: true });
    let child: ChildProcess | null = null;
    let pool: Pool | null = null;
    let said = '';
    try {
      await recipe.install(directory);
      const port = await freePort();
      const [command, ...args] = await recipe.command(directory, upstream, port);
      child = spawn(command!, args, {
        cwd: directory,
        detached: true,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          PATH: process.env['PATH'],
          HOME: directory,
          SERVICE_PORT: String(port),
          NODE_ENV: 'production',
        },
      });
      const hear = (chunk: Buffer): void => void (said = (said + chunk.toString()).slice(-2_000));
      child.stdout?.on('data', hear);
      child.stderr?.on('data', hear);
      child.on('error', () => {});
      const opened = (pool = new Pool(`http://127.0.0.1:${port}`, {
        headersTimeout: 60_000,
        bodyTimeout: 60_000,
      }));
      const { pid } = child;
      const request = recipe.speaks === 'openai' ? openaiRequest : anthropicRequest;
      const target = (size: Size): Target => ({
        name: recipe.name,
        cpuMs: async () => cpuSeconds(pid ?? 0) * 1000,
        pool: opened,
        path: recipe.speaks === 'openai' ? '/v1/chat/completions' : '/v1/messages',
        headers: { 'content-type': 'application/json', ...recipe.headers(upstream) },
        body: (number) => request(size, number),
      });
      await ready(child, target('small'));
      await measure(recipe.name, target);
    } catch (error) {
      failed(
        recipe.name,
        `${(error as Error).message.split('\n')[0]} ${said.split('\n').slice(-6).join(' | ')}`,
      );
    } finally {
      await pool?.destroy();
      if (child !== null) await stop(child);
    }
  }
}
