import { randomBytes } from 'node:crypto';
import type Docker from 'dockerode';
import { ApiError } from './answers.ts';
import type { Faults } from './faults.ts';
import type { LiveSandbox, NetworkConfig } from './live-sandbox.ts';
import { SandboxContainer } from './sandbox-container.ts';
import { newId, textOf, type Templates } from './templates.ts';

const defaultTimeoutS = 300;
const longestTimeoutS = 86_400;
const everything = '0.0.0.0/0';

export interface Snapshot {
  readonly snapshotID: string;
  readonly names: readonly string[];
  readonly sandboxID: string;
  readonly image: string;
}

export interface SandboxesOptions {
  readonly docker: Docker;
  readonly label: string;
  readonly directory: string;
  readonly templates: Templates;
  readonly faults: Faults;
  /** Most that run at once; null: without end. */
  readonly maxSandboxes: number | null;
}

/** The sandboxes there are, each with its end, and the snapshots made of them. */
export class Sandboxes {
  readonly live = new Map<string, LiveSandbox>();
  readonly snapshots = new Map<string, Snapshot>();
  /** Ids of all that were ever made, oldest first. */
  readonly made: string[] = [];
  /** Most that ran or were being made at one time. */
  peak = 0;
  readonly #options: SandboxesOptions;
  readonly #work = new Set<Promise<unknown>>();
  #starting = 0;
  #closed = false;

  constructor(options: SandboxesOptions) {
    this.#options = options;
  }

  async create(body: Record<string, unknown>): Promise<LiveSandbox> {
    const { templates, faults, maxSandboxes, docker, label, directory } = this.#options;
    const name = textOf(body['templateID']);
    const template = templates.find(name);
    if (template === null) throw new ApiError(404, `template '${name}' not found`);
    const timeout = timeoutOf(body['timeout'], defaultTimeoutS);
    if (maxSandboxes !== null && this.#inUse() >= maxSandboxes) {
      throw new ApiError(
        429,
        `you have reached the maximum number of concurrent E2B sandboxes (${maxSandboxes}). If you need more, ` +
          'please contact support',
      );
    }
    if (this.#closed) throw new ApiError(503, 'closing');
    this.#starting += 1;
    this.peak = Math.max(this.peak, this.#inUse());
    try {
      const sandboxID = `i${randomBytes(10).toString('hex')}`;
      const network = (body['network'] ?? {}) as NetworkConfig;
      const internet = body['allow_internet_access'] !== false && !deniesAll(network);
      const env = {
        E2B_SANDBOX: 'true',
        E2B_SANDBOX_ID: sandboxID,
        E2B_TEMPLATE_ID: template.id,
        ...(body['envVars'] as Record<string, string> | undefined),
      };
      const accessToken = randomBytes(16).toString('hex');
      const { id, spec } = template;
      const container = await this.#doing(
        SandboxContainer.start({ docker, id: sandboxID, label, spec, internet, directory, accessToken, env }),
      );
      const startedAt = Date.now();
      const sandbox: LiveSandbox = {
        sandboxID,
        templateID: id,
        alias: template.name,
        spec,
        metadata: (body['metadata'] ?? {}) as Record<string, string>,
        env,
        accessToken,
        container,
        startedAt,
        endAt: startedAt,
        pausesAtEnd: body['autoPause'] === true,
        state: 'running',
        keepsMemory: body['autoPauseMemory'] !== false,
        internet,
        network,
        hangsCommands: faults.take('hang_commands') !== null,
        timers: [],
        connections: new Set(),
      };
      this.live.set(sandboxID, sandbox);
      this.made.push(sandboxID);
      this.setTimeout(sandbox, timeout);
      return sandbox;
    } finally {
      this.#starting -= 1;
    }
  }

  /** Applies what is to happen to a sandbox that was made: called when its creation is over for its client. */
  applyFaults(sandbox: LiveSandbox): void {
    const { faults } = this.#options;
    const evicted = faults.take('evict');
    if (evicted !== null) {
      sandbox.timers.push(setTimeout(() => void this.remove(sandbox.sandboxID), evicted.after_ms));
    }
    const early = faults.take('end_early');
    if (early !== null) {
      const ms = Math.max(0, sandbox.endAt - Date.now() - early.by_ms);
      sandbox.timers.push(setTimeout(() => void this.remove(sandbox.sandboxID), ms));
    }
  }

  get(sandboxID: string): LiveSandbox {
    const found = this.live.get(sandboxID);
    if (found !== undefined) return found;
    throw new ApiError(404, `Sandbox "${sandboxID}" doesn't exist or you don't have access to it`);
  }

  /** From now on, in seconds. */
  setTimeout(sandbox: LiveSandbox, seconds: number): void {
    const [end, ...others] = sandbox.timers;
    clearTimeout(end);
    sandbox.endAt = Date.now() + seconds * 1000;
    const timer = setTimeout(() => void this.#end(sandbox), seconds * 1000);
    sandbox.timers = [timer, ...others];
  }

  extendTo(sandbox: LiveSandbox, given: unknown): void {
    const seconds = timeoutOf(given, defaultTimeoutS);
    if (Date.now() + seconds * 1000 > sandbox.endAt) this.setTimeout(sandbox, seconds);
  }

  shorten(sandbox: LiveSandbox, given: unknown): void {
    this.setTimeout(sandbox, timeoutOf(given, 0));
  }

  /** Gone for every client at once; resolves when its container is removed as well. */
  async remove(sandboxID: string): Promise<boolean> {
    const sandbox = this.live.get(sandboxID);
    if (sandbox === undefined) return false;
    this.live.delete(sandboxID);
    for (const timer of sandbox.timers) clearTimeout(timer);
    for (const end of sandbox.connections) end();
    await this.#doing(sandbox.container.remove());
    return true;
  }

  async pause(sandbox: LiveSandbox, keepsMemory: boolean): Promise<void> {
    if (sandbox.state === 'paused') throw new ApiError(409, `sandbox ${sandbox.sandboxID} is paused already`);
    sandbox.state = 'paused';
    sandbox.keepsMemory = keepsMemory;
    clearTimeout(sandbox.timers[0]);
    for (const end of sandbox.connections) end();
    await sandbox.container.pause();
  }

  async resume(sandbox: LiveSandbox, memory: boolean): Promise<void> {
    await sandbox.container.resume();
    sandbox.state = 'running';
    if (!sandbox.keepsMemory || !memory) {
      await sandbox.container.init({ accessToken: sandbox.accessToken, reboot: true });
    }
  }

  async snapshot(sandbox: LiveSandbox, name: string | null): Promise<Snapshot> {
    const snapshotID = newId('snap');
    const image = `rollpool-e2b-double-${snapshotID}`;
    await this.#doing(sandbox.container.commit(image));
    const snapshot = {
      snapshotID,
      names: name === null ? [] : [name],
      sandboxID: sandbox.sandboxID,
      image,
    };
    this.snapshots.set(snapshotID, snapshot);
    this.#options.templates.put(snapshotID, snapshotID, { ...sandbox.spec, image });
    return snapshot;
  }

  async removeSnapshot(nameOrId: string): Promise<boolean> {
    const found = [...this.snapshots.values()].find(
      ({ snapshotID, names }) => snapshotID === nameOrId || names.includes(nameOrId),
    );
    if (found === undefined) return false;
    this.snapshots.delete(found.snapshotID);
    this.#options.templates.remove(found.snapshotID);
    await this.#doing(this.#options.docker.getImage(found.image).remove({ force: true }));
    return true;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (;;) {
      await Promise.all([...this.live.keys()].map((id) => this.remove(id)));
      await Promise.allSettled([...this.#work]);
      if (this.live.size + this.#work.size + this.#starting === 0) break;
    }
    await Promise.all([...this.snapshots.keys()].map((id) => this.removeSnapshot(id)));
  }

  async #end(sandbox: LiveSandbox): Promise<void> {
    if (!sandbox.pausesAtEnd) await this.remove(sandbox.sandboxID);
    else if (sandbox.state === 'running') await this.pause(sandbox, sandbox.keepsMemory);
  }

  /** Paused ones take no place (facts: E2B 2.7). */
  #inUse(): number {
    const running = [...this.live.values()].filter(({ state }) => state === 'running');
    return running.length + this.#starting;
  }

  async #doing<T>(work: Promise<T>): Promise<T> {
    this.#work.add(work);
    try {
      return await work;
    } finally {
      this.#work.delete(work);
    }
  }
}

function deniesAll(network: NetworkConfig): boolean {
  const denied = network['denyOut'];
  return Array.isArray(denied) && denied.includes(everything);
}

function timeoutOf(given: unknown, fallback: number): number {
  if (given === undefined || given === null) return fallback;
  const seconds = Number(given);
  if (!Number.isInteger(seconds) || seconds < 0) throw new ApiError(400, `timeout: ${JSON.stringify(given)}`);
  if (seconds > longestTimeoutS) throw new ApiError(400, 'Timeout cannot be greater than 24 hours');
  return seconds;
}
