import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import type { ExecOptions, ExecResult, SandboxProcess, SpawnOptions } from '../../../src/sandbox/sandbox.ts';
import { openTunnel, type Tunnel, type TunnelOptions } from '../../../src/sandbox/tunnel/index.ts';

/** Plain processes of this machine as a tunnel's host: what it needs of a sandbox, and nothing in between. */
export class ProcessHost {
  /** The attach processes, the last one last. */
  readonly attached: SandboxProcess[] = [];
  /** Changes what passes between the worker and the command, for tests of a channel that misbehaves. */
  between: (process: SandboxProcess) => SandboxProcess = (process) => process;

  async exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult> {
    const process = start(command);
    process.stdin.end(options.stdin ?? '');
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    process.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    process.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    const exit_code = await process.exited;
    const stdout = Buffer.concat(out);
    const stderr = Buffer.concat(err);
    return {
      exit_code,
      timed_out: false,
      stdout: stdout.toString(),
      stderr: stderr.toString(),
      stdout_bytes: stdout.length,
      stderr_bytes: stderr.length,
    };
  }

  async spawn(command: string | readonly string[], _options: SpawnOptions): Promise<SandboxProcess> {
    const process = start(command);
    this.attached.push(process);
    return this.between(process);
  }
}

// The system's own python3: a shim of a version manager takes longer to start than all the rest.
const path = '/usr/local/bin:/usr/bin:/bin';

function start(command: string | readonly string[]): SandboxProcess & { readonly pid: number } {
  const [program = '', ...words] = typeof command === 'string' ? ['bash', '-c', command] : command;
  const child = spawn(program, words, { stdio: 'pipe', env: { PATH: path } });
  const exited = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(127));
    child.on('exit', (code) => resolve(code ?? 137));
  });
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  child.stdin.on('error', () => undefined);
  return {
    pid: child.pid ?? 0,
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    exited,
    kill,
    [Symbol.asyncDispose]: kill,
  };
}

/** A directory with a server at `target`, and a tunnel from `inside` to it. */
export interface Stage extends AsyncDisposable {
  readonly directory: string;
  readonly target: string;
  readonly inside: string;
  readonly host: ProcessHost;
  readonly open: (overrides?: Partial<TunnelOptions>) => Promise<Tunnel>;
}

export async function setStage(serve: (socket: Socket) => void): Promise<Stage> {
  const directory = await mkdtemp(join(tmpdir(), `rp-tun-${process.pid}-`));
  const target = join(directory, 'target.sock');
  const server = await listen(target, serve);
  const host = new ProcessHost();
  const inside = join(directory, 'in', 'gw.sock');
  return {
    directory,
    target,
    inside,
    host,
    open: (overrides = {}) =>
      openTunnel({
        host,
        routes: [{ name: 'gateway', listen: { unix: inside }, target }],
        directory: join(directory, 'relay'),
        signal: new AbortController().signal,
        ...overrides,
      }),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** A server whose connections may be closed by one side alone. */
export async function listen(path: string, serve: (socket: Socket) => void): Promise<AsyncDisposable> {
  const sockets = new Set<Socket>();
  const server: Server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    serve(socket);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export function bytesOf(length: number): Buffer {
  return randomBytes(length);
}

/** Sends `bytes`, closes that direction, and gives what came until the other side closed its own. Rejects when it broke. */
export async function exchange(path: string, bytes: Uint8Array): Promise<Buffer> {
  const socket = connect({ path, allowHalfOpen: true });
  const came: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => came.push(chunk));
  await new Promise<void>((resolve, reject) => {
    let ended = false;
    socket.on('end', () => {
      ended = true;
    });
    socket.on('error', reject);
    socket.on('close', () => (ended ? resolve() : reject(new Error('the connection was closed'))));
    socket.end(bytes);
  });
  return Buffer.concat(came);
}
