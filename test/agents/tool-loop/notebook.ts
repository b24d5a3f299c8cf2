import { EpisodeError, type ToolDefinition } from '../../../src/contracts/index.ts';
import type { Environment, ToolCallOptions, ToolResult } from '../../../src/fleet/environment.ts';

function tool(name: string, ...parameters: string[]): ToolDefinition {
  return {
    type: 'function',
    function: {
      name,
      description: `${name} of the notebook`,
      parameters: {
        type: 'object',
        properties: Object.fromEntries(parameters.map((each) => [each, { type: 'string' }])),
        required: parameters,
      },
    },
  };
}

/** A picture of one pixel. */
export const pixel =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

/** An environment in memory: pages with text, a picture of them, and a tool that never answers. */
export class Notebook implements Environment {
  readonly provider = 'memory';
  readonly id = 'notebook';
  readonly metrics = {};
  readonly pages = new Map<string, string>();
  /** Names of the tools called, in order, and the most that were under way at once. */
  readonly called: string[] = [];
  mostAtOnce = 0;
  timeouts: number[] = [];
  /** Whether the provider took it away. */
  gone = false;
  readonly #tools: readonly ToolDefinition[];
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  constructor(more: readonly ToolDefinition[] = []) {
    this.#tools = [
      tool('write', 'page', 'text'),
      tool('read', 'page'),
      tool('photograph'),
      tool('wait'),
      ...more,
    ];
  }

  async tools({ timeout_ms }: ToolCallOptions): Promise<readonly ToolDefinition[]> {
    this.timeouts.push(timeout_ms);
    return Promise.resolve(this.#tools);
  }

  async callTool(
    name: string,
    args: Readonly<Record<string, unknown>>,
    { timeout_ms, signal }: ToolCallOptions,
  ): Promise<ToolResult> {
    if (this.gone) {
      const message = 'the provider does not know the environment any more';
      throw new EpisodeError({ class: 'infra', phase: 'agent', code: 'environment_gone', message });
    }
    this.called.push(name);
    this.timeouts.push(timeout_ms);
    this.#running += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#running);
    try {
      // Not at once, so that calls made in parallel would meet.
      await new Promise((resolve) => setImmediate(resolve));
      return await this.#act(name, args, signal);
    } finally {
      this.#running -= 1;
    }
  }

  /** Lets every `wait` under way answer. */
  wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  async #act(
    name: string,
    args: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<ToolResult> {
    const page = String(args['page']);
    const ok = (text: string, images: string[] = []): ToolResult => ({ text, images, is_error: false });
    switch (name) {
      case 'write':
        this.pages.set(page, String(args['text']));
        return ok(`wrote ${page}`);
      case 'read': {
        const text = this.pages.get(page);
        return text === undefined ? { text: `no page ${page}`, images: [], is_error: true } : ok(text);
      }
      case 'photograph':
        return ok(`${this.pages.size} pages`, [pixel]);
      case 'wait':
        await new Promise<void>((resolve, reject) => {
          this.#waiting.push(resolve);
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
        });
        return ok('waited');
      default:
        return ok(`${name} done`);
    }
  }

  state(): Promise<'running' | 'gone'> {
    return Promise.resolve(this.gone ? 'gone' : 'running');
  }

  async extend(): Promise<void> {}

  verify(): Promise<never> {
    throw new EpisodeError({ class: 'task', phase: 'grade', code: 'no_verifier', message: 'it has none' });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.gone = true;
    return Promise.resolve();
  }
}
