import type { ReapFilter, ReapReport } from '../../contracts/index.ts';
import type {
  KeptSnapshot,
  PreparedSandbox,
  PrepareRequest,
  Sandbox,
  SandboxProvider,
  SandboxRequest,
} from '../sandbox.ts';
import type { E2bProviderOptions } from './e2b-provider.ts';

type Whole = Required<Omit<SandboxProvider, 'provide'>>;

/** The provider of E2B's sandboxes, loaded when it is first used: its SDK costs every start of a process 0.3 s. */
export class LateE2bProvider implements SandboxProvider {
  readonly name = 'e2b';
  readonly shared = true;
  readonly remote = true;
  readonly #options: E2bProviderOptions;
  #loading: Promise<Whole> | undefined;

  constructor(options: E2bProviderOptions) {
    this.#options = options;
  }

  async probe(signal?: AbortSignal): Promise<void> {
    await (await this.#loaded()).probe(signal);
  }

  async create(request: SandboxRequest): Promise<Sandbox> {
    return (await this.#loaded()).create(request);
  }

  async prepare(request: PrepareRequest): Promise<PreparedSandbox> {
    return (await this.#loaded()).prepare(request);
  }

  async reap(filter: ReapFilter): Promise<ReapReport> {
    return (await this.#loaded()).reap(filter);
  }

  async listSnapshots(pool: string): Promise<readonly KeptSnapshot[]> {
    return (await this.#loaded()).listSnapshots(pool);
  }

  async removeSnapshot(name: string): Promise<void> {
    await (await this.#loaded()).removeSnapshot(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#loading !== undefined) await (await this.#loading)[Symbol.asyncDispose]();
  }

  #loaded(): Promise<Whole> {
    this.#loading ??= import('./e2b-provider.ts').then(({ E2bProvider }) => new E2bProvider(this.#options));
    return this.#loading;
  }
}
