import { Sandbox as E2bApi } from 'e2b';
import { crashPoint, type Logger } from '../../observe/index.ts';
import type { CreationGate, EpisodeError, Owner } from '../../contracts/index.ts';
import { collectFiles } from '../collect-files.ts';
import { fileBytes } from '../file-bytes.ts';
import { infraFailure, taskFailure } from '../sandbox-failure.ts';
import type {
  CollectBounds,
  CollectedFile,
  ExecOptions,
  ExecResult,
  Sandbox,
  SandboxProcess,
  SandboxState,
  SandboxUser,
  SpawnOptions,
  UploadFiles,
} from '../sandbox.ts';
import type { Tunnel } from '../tunnel/index.ts';
import { accounts } from './accounts.ts';
import type { Channel } from './channel.ts';
import { sdkOptions, type E2bConnection } from './connection.ts';
import type { CreatedSandbox } from './creation.ts';
import type { Inside } from './inside.ts';
import { removeSandbox } from './remove-sandbox.ts';
import { snapshotName } from './snapshots.ts';

export const gatewaySocket = '/gw/gw.sock';

const answerMs = 25_000;
const filesMs = 120_000;
const ownMs = 120_000;
const removeMs = 45_000;
const absent = 3;
const fullBytes = 2 ** 20;

export interface E2bSandboxParts extends CreatedSandbox {
  readonly connection: E2bConnection;
  readonly gate: CreationGate;
  readonly channel: Channel;
  readonly inside: Inside;
  readonly workdir: string;
  readonly cliPath: string | null;
  /** Why there is no CLI. */
  readonly noCli: EpisodeError;
  /** Processes that had been killed for want of memory when it booted. */
  readonly oomBefore: number;
  readonly log: Logger;
}

function isPlain(path: string): boolean {
  return !/[\x00-\x1f\x7f]/.test(path) && !path.split('/').includes('..');
}

/** Files as inside/verbs.py takes them: [u32 header length][JSON][bytes] each. */
function* packed(files: UploadFiles): Generator<Uint8Array> {
  for (const [path, content] of Object.entries(files)) {
    const bytes = fileBytes(content);
    const header = Buffer.from(JSON.stringify({ path, size: bytes.byteLength }), 'utf8');
    const length = Buffer.alloc(4);
    length.writeUInt32BE(header.length);
    yield Buffer.concat([length, header]);
    if (bytes.byteLength > 0) yield bytes;
  }
}

/** A virtual machine of E2B's. Agent and grader are users of our own in it, and neither can become the other or root. */
export class E2bSandbox implements Sandbox {
  readonly provider = 'e2b';
  readonly isolation = 'microvm';
  readonly id: string;
  readonly workdir: string;
  readonly agent_home = accounts.agent.home;
  readonly cli_path: string | null;
  readonly no_cli: EpisodeError;
  readonly gateway_socket = gatewaySocket;
  readonly proxy_url = null;
  readonly #parts: E2bSandboxParts;
  #tunnel: Tunnel | null = null;
  #disposal: Promise<void> | undefined;

  constructor(parts: E2bSandboxParts) {
    this.#parts = parts;
    this.id = parts.api.sandboxId;
    this.workdir = parts.workdir;
    this.cli_path = parts.cliPath;
    this.no_cli = parts.noCli;
  }

  /** The tunnel is ended with the sandbox, and the sandbox counts as gone without it. */
  carry(tunnel: Tunnel): void {
    this.#tunnel = tunnel;
    tunnel.lost.addEventListener('abort', () =>
      this.#parts.channel.lose('the sandbox is gone: its tunnel to the gateway could not be opened again'),
    );
  }

  async exec(command: string | readonly string[], options: ExecOptions): Promise<ExecResult> {
    options.signal?.throwIfAborted();
    return this.#parts.inside.exec(command, { ...options, cwd: options.cwd ?? this.workdir });
  }

  async spawn(command: string | readonly string[], options: SpawnOptions): Promise<SandboxProcess> {
    options.signal?.throwIfAborted();
    return this.#parts.inside.spawn(command, { ...options, cwd: options.cwd ?? this.workdir });
  }

  async upload(
    files: UploadFiles,
    options: { base?: string; owner?: SandboxUser; mode?: number } = {},
  ): Promise<void> {
    if (Object.keys(files).length === 0) return;
    const base = options.base ?? this.workdir;
    for (const path of [base, ...Object.keys(files)]) {
      if (!isPlain(path)) {
        throw taskFailure('bad_path', `files: ${JSON.stringify(path)} cannot be a path in a sandbox`);
      }
    }
    const args = { base, uid: accounts[options.owner ?? 'agent'].uid, mode: options.mode ?? 0o644 };
    const { code, why } = await this.#parts.inside.verb('unpack', args, {
      timeout_ms: filesMs,
      stdin: packed(files),
    });
    if (code !== 0)
      throw infraFailure('upload_failed', `files could not be written into the sandbox: ${why}`);
  }

  async giveWorkdir(user: SandboxUser): Promise<void> {
    const args = { workdir: this.workdir, uid: accounts[user].uid };
    const { code, why } = await this.#parts.inside.verb('own', args, { timeout_ms: ownMs });
    if (code !== 0)
      throw infraFailure('sandbox_refused', `the working directory could not be handed over: ${why}`);
  }

  async read(path: string, max_bytes: number): Promise<Uint8Array | null> {
    const absolute = path.startsWith('/') ? path : `${this.workdir}/${path}`;
    if (!isPlain(absolute)) return null;
    const { code, output, why } = await this.#parts.inside.verb(
      'read',
      { path: absolute, max: max_bytes },
      { timeout_ms: filesMs, max_output_bytes: max_bytes },
    );
    if (code === absent) return null;
    if (code !== 0) throw infraFailure('read_failed', `${path} could not be read: ${why}`);
    return output;
  }

  async collect(paths: readonly string[], bounds: CollectBounds): Promise<readonly CollectedFile[]> {
    return collectFiles(this, paths, bounds);
  }

  /** Memory is kept as well where E2B keeps it; a sandbox made from it ends what ran. */
  async snapshot(owner: Owner, timeout_ms: number): Promise<string> {
    this.#parts.channel.lost.throwIfAborted();
    try {
      const made = await E2bApi.createSnapshot(this.id, {
        ...sdkOptions(this.#parts.connection),
        requestTimeoutMs: timeout_ms,
        name: snapshotName(owner, Date.now()),
      });
      return made.snapshotId;
    } catch (cause) {
      throw infraFailure('snapshot_failed', 'E2B did not keep the state of a sandbox', {
        phase: 'grade',
        cause,
      });
    }
  }

  async killAgent(timeout_ms: number): Promise<void> {
    await this.#parts.inside.killUser('agent', timeout_ms);
  }

  async state(): Promise<SandboxState> {
    const { channel, inside, oomBefore } = this.#parts;
    if (channel.lost.aborted) return 'gone';
    try {
      const { output } = await inside.verb('look', { workdir: this.workdir }, { timeout_ms: answerMs });
      const { oom, free } = JSON.parse(output.toString('utf8')) as { oom: number; free: number | null };
      if (oom > oomBefore) return 'oom';
      return free !== null && free < fullBytes ? 'disk_full' : 'running';
    } catch {
      return 'gone';
    }
  }

  /** Whether it still answers. */
  async answers(timeout_ms: number): Promise<boolean> {
    const { channel, inside } = this.#parts;
    if (channel.lost.aborted) return false;
    return inside.verb('look', { workdir: this.workdir }, { timeout_ms }).then(
      () => true,
      () => false,
    );
  }

  /** Its time begins anew. */
  async renew(seconds: number): Promise<void> {
    await this.#parts.lifetime.renew(seconds * 1000);
  }

  async extend(seconds: number): Promise<void> {
    await this.#parts.lifetime.extend(seconds * 1000);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal ??= (async () => {
      const { connection, channel, place, gate } = this.#parts;
      crashPoint('sandbox.delete:before');
      // Nothing is to be ended in good order in a machine that is thrown away.
      await channel[Symbol.asyncDispose]();
      const closing = this.#closeTunnel();
      try {
        await removeSandbox(connection, this.id, removeMs);
      } finally {
        await closing;
        await place.release();
        await gate.freed?.();
      }
      crashPoint('sandbox.delete:after');
    })();
    await this.#disposal;
  }

  async #closeTunnel(): Promise<void> {
    try {
      await this.#tunnel?.[Symbol.asyncDispose]();
    } catch {
      // Its end inside goes with the sandbox.
    }
  }
}
