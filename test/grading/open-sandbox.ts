import { sandboxSpecSchema, type SandboxSpec } from '../../src/contracts/index.ts';
import type { EgressSettings } from '../../src/sandbox/egress/index.ts';
import {
  createSandboxProvider,
  type Sandbox,
  type SandboxProvider,
  type SandboxProviderName,
} from '../../src/sandbox/index.ts';

/** Why a provider cannot be used here; null when it can. Where Docker is required, this throws instead. */
async function unusable(name: SandboxProviderName): Promise<string | null> {
  try {
    await using provider = createSandboxProvider(name);
    await provider.probe();
    return null;
  } catch (error) {
    if (process.env['ROLLPOOL_TEST_REQUIRE_DOCKER'] === '1') throw error;
    return (error as Error).message;
  }
}

/** The providers to test with on this machine; what is left out is printed with its reason. */
export async function usableProviders(): Promise<SandboxProviderName[]> {
  const usable: SandboxProviderName[] = ['local'];
  const reason = await unusable('docker');
  if (reason === null) usable.push('docker');
  else console.warn(`skipped: tests in docker sandboxes: ${reason}`);
  return usable;
}

let count = 0;

export interface OpenOptions {
  /** Directory of the gateway's socket. Default: there is none. */
  readonly gatewayDir?: string;
  readonly cliBinary?: string | null;
  readonly memoryMb?: number;
  /** Default: none. */
  readonly network?: SandboxSpec['network'];
  /** Where the hosts of an allow list are. Default: where the system says. */
  readonly egress?: EgressSettings;
}

/** A real sandbox with its working directory empty. Disposing it kills it. */
export async function openSandbox(
  name: SandboxProviderName,
  options: OpenOptions = {},
): Promise<{ sandbox: Sandbox } & AsyncDisposable> {
  const undo: (() => Promise<unknown>)[] = [];
  const dispose = async (): Promise<void> => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const provider: SandboxProvider = createSandboxProvider(
      name,
      options.egress === undefined ? {} : { egress: options.egress },
    );
    undo.push(async () => provider[Symbol.asyncDispose]());
    count += 1;
    const nonce = `t${process.pid}x${count}x${Date.now().toString(36)}`;
    const sandbox = await provider.create({
      spec: sandboxSpecSchema.parse({ memory_mb: options.memoryMb ?? 2048, network: options.network }),
      owner: {
        pool: 'test',
        worker: `w-${process.pid}`,
        run_id: 'r',
        episode_id: `e${nonce}`,
        attempt: 1,
        nonce,
      },
      gateway_dir: options.gatewayDir ?? null,
      cli_binary: options.cliBinary ?? null,
      ttl_seconds: 600,
      signal: AbortSignal.timeout(60_000),
    });
    undo.push(async () => sandbox[Symbol.asyncDispose]());
    return { sandbox, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
