import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { join } from 'node:path';

const source = pathToFileURL(join(import.meta.dirname, '../../../src/policy/index.ts')).href;

const program = `
  import { startScriptedPolicy } from ${JSON.stringify(source)};
  const options = JSON.parse(process.argv[1]);
  const policy = await startScriptedPolicy({
    model: 'policy', scripts: [{ match: 'hi', turns: [{ repeat: 10000, turns: [{ text: 'an answer' }] }] }], ...options,
  });
  process.stdout.write(policy.port + '\\n');
`;

/** A scripted policy in a process of its own, to be killed, frozen and started again on its port. */
export class PolicyProcess implements AsyncDisposable {
  readonly #options: Record<string, unknown>;
  #child: ChildProcess | null = null;
  #port = 0;

  private constructor(options: Record<string, unknown>) {
    this.#options = options;
  }

  static async start(options: Record<string, unknown> = {}): Promise<PolicyProcess> {
    const policy = new PolicyProcess(options);
    await policy.start();
    return policy;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<void> {
    const child = spawn(
      process.execPath,
      [
        '--import',
        'tsx',
        '--input-type=module',
        '-e',
        program,
        JSON.stringify({ ...this.#options, port: this.#port }),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    this.#child = child;
    for await (const line of createInterface({ input: child.stdout })) {
      this.#port = Number(line);
      return;
    }
    throw new Error('the policy did not start');
  }

  async kill(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    if (child === null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Connections are taken, and nothing is answered. */
  freeze(): void {
    this.#child?.kill('SIGSTOP');
  }

  goOn(): void {
    this.#child?.kill('SIGCONT');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}
