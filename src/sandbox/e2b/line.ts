import type { CommandHandle, Sandbox as E2bApi } from 'e2b';
import { MessageReader, type Message } from './frames.ts';
import { insideDirectory } from './inside-files.ts';

const sendMs = 30_000;

/** Why a line ended. `exit`: the exit code of its command, when it ended by itself. */
export interface LineEnd {
  readonly error: Error | null;
  readonly exit: number | null;
}

/**
 * The template's own PATH is what the command's environment has at its start: the SDK runs a login shell, whose
 * start-up files may replace it (facts: E2B 2.4).
 */
function connectCommand(name: string): string {
  return [
    "while IFS= read -r -d '' v; do case $v in PATH=*) export ROLLPOOL_TEMPLATE_PATH=${v#PATH=} ;; esac; done </proc/$$/environ",
    `exec python3 -I -S -B ${insideDirectory}/hand.py connect ${name}`,
  ].join('\n');
}

/**
 * One command of root's whose stdin and stdout are the line to the hand. It has no time-out (the SDK's own would end it
 * after 60 s), and it may break at any time: what went over it and did not arrive is the channel's to send again.
 */
export class Line {
  readonly #handle: CommandHandle;
  readonly #received: { characters: number };
  #broken = false;
  /** Resolves when nothing comes any more. */
  readonly ended: Promise<LineEnd>;

  private constructor(handle: CommandHandle, received: { characters: number }) {
    this.#handle = handle;
    this.#received = received;
    this.ended = handle.wait().then(
      () => ({ error: null, exit: 0 }),
      (error: unknown) => ({
        error: error instanceof Error ? error : new Error(String(error)),
        exit: (error as { exitCode?: number }).exitCode ?? null,
      }),
    );
  }

  /** `onMessages` throws on messages that cannot be: the line is broken then. */
  static async open(
    api: E2bApi,
    name: string,
    startMs: number,
    onMessages: (messages: readonly Message[]) => void,
  ): Promise<Line> {
    const reader = new MessageReader();
    const received = { characters: 0 };
    const opened: { line?: Line } = {};
    const handle = await api.commands.run(connectCommand(name), {
      background: true,
      stdin: true,
      user: 'root',
      timeoutMs: 0,
      requestTimeoutMs: startMs,
      onStdout: (text) => {
        received.characters += text.length;
        if (opened.line?.broken === true) return;
        try {
          onMessages(reader.push(text));
        } catch {
          opened.line?.break();
        }
      },
    });
    opened.line = new Line(handle, received);
    return opened.line;
  }

  /** Characters that came; the SDK keeps every one of them for as long as the command runs. */
  get received(): number {
    return this.#received.characters;
  }

  get broken(): boolean {
    return this.#broken;
  }

  /** Rejects when it could not be sent, or may not have arrived. */
  async send(bytes: Uint8Array): Promise<void> {
    await this.#handle.sendStdin(bytes, { requestTimeoutMs: sendMs });
  }

  /** Lets go of it; its command inside ends when the hand takes the next line. */
  break(): void {
    if (this.#broken) return;
    this.#broken = true;
    void this.#handle.disconnect();
  }
}
