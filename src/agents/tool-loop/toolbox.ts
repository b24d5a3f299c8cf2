import type { ToolDefinition } from '../../contracts/index.ts';
import type { Environment, ToolResult } from '../../fleet/environment.ts';
import type { ReadCall } from './dialect.ts';
import { offersSubmit, readAnswer, submitTool, submitToolName } from './submit-answer.ts';

export interface ToolboxOptions {
  /** Milliseconds for one call with its retries. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface ToolUse {
  /** Calls made to the environment. */
  readonly tool_calls: number;
  /** Of those, the ones that failed. */
  readonly tool_errors: number;
  /** Calls that could not be made as they were written. */
  readonly invalid_calls: number;
  /** Seconds spent in tools. */
  readonly tool_s: number;
}

/** `submitted`: the policy handed in its answer. `valid` false: no tool was called. */
export type Used = { readonly submitted: string } | { readonly result: ToolResult; readonly valid: boolean };

/** Of a tool that is not there, told again: names that a policy makes up may be of any length. */
const longestName = 100;
/** Tools named in place of it. */
const namesTold = 100;

/** The tools of one episode: the environment's, and the loop's own where the prompt asks for it. */
export class Toolbox {
  readonly tools: readonly ToolDefinition[];
  readonly submits: boolean;
  readonly #environment: Environment;
  readonly #options: ToolboxOptions;
  readonly #names: ReadonlySet<string>;
  #calls = 0;
  #errors = 0;
  #invalid = 0;
  #ms = 0;

  constructor(
    environment: Environment,
    listed: readonly ToolDefinition[],
    prompt: string,
    options: ToolboxOptions,
  ) {
    this.submits = offersSubmit(prompt, listed);
    this.tools = this.submits ? [...listed, submitTool] : listed;
    this.#environment = environment;
    this.#options = options;
    this.#names = new Set(this.tools.map((tool) => tool.function.name));
  }

  get use(): ToolUse {
    return {
      tool_calls: this.#calls,
      tool_errors: this.#errors,
      invalid_calls: this.#invalid,
      tool_s: Math.round(this.#ms) / 1000,
    };
  }

  /** Makes a call, or tells the policy why it could not be made. Rejects as Environment.callTool does. */
  async call(call: ReadCall): Promise<Used> {
    const { name } = call;
    if (name !== '' && !this.#names.has(name)) {
      return this.#refuse(
        `there is no tool ${JSON.stringify(name.slice(0, longestName))}; the tools are: ${this.#known()}`,
      );
    }
    if ('fault' in call) {
      return this.#refuse(
        `the ${name === '' ? 'tool call' : `call of ${name}`} could not be read: ${call.fault}`,
      );
    }
    if (this.submits && name === submitToolName) {
      const read = readAnswer(call.args);
      return 'fault' in read
        ? this.#refuse(`nothing was submitted: ${read.fault}`)
        : { submitted: read.answer };
    }
    const startedAt = performance.now();
    this.#calls += 1;
    try {
      const result = await this.#environment.callTool(name, call.args, {
        timeout_ms: this.#options.timeoutMs,
        signal: this.#options.signal,
      });
      if (result.is_error) this.#errors += 1;
      return { result, valid: true };
    } finally {
      this.#ms += performance.now() - startedAt;
    }
  }

  #known(): string {
    const names = [...this.#names];
    const more = names.length - namesTold;
    return `${names.slice(0, namesTold).join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
  }

  #refuse(text: string): Used {
    this.#invalid += 1;
    return { result: { text, images: [], is_error: true }, valid: false };
  }
}
