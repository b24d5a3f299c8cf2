/** One line of what the daemon says while it pulls or builds (Docker Engine API, "ImageCreate", "ImageBuild"). */
export interface DaemonEvent {
  /** Output of a build. */
  readonly stream?: string;
  /** What happens to a layer. */
  readonly status?: string;
  /** The layer. */
  readonly id?: string;
  readonly progressDetail?: { readonly current?: number; readonly total?: number };
  readonly error?: string;
  readonly errorDetail?: { readonly message?: string; readonly code?: number };
}

/** An error that the daemon gave as the last event of a stream that had begun well. */
export class DaemonStreamError extends Error {
  /** Exit code of a build's command; null: it was something else. */
  readonly exitCode: number | null;

  constructor(event: DaemonEvent) {
    super(event.errorDetail?.message ?? event.error ?? 'it failed');
    this.name = 'DaemonStreamError';
    this.exitCode = event.errorDetail?.code ?? null;
  }
}

/**
 * Hands on each event until the stream has ended. Rejects with DaemonStreamError, or with what broke the stream. A stream of
 * a daemon that died ends like any other: whoever reads it looks whether the image is there.
 */
export async function readEvents(
  stream: NodeJS.ReadableStream,
  onEvent: (event: DaemonEvent) => void,
): Promise<void> {
  let partial = '';
  const take = (line: string): void => {
    if (line.trim() === '') return;
    const event = JSON.parse(line) as DaemonEvent;
    if (event.error !== undefined || event.errorDetail !== undefined) throw new DaemonStreamError(event);
    onEvent(event);
  };
  for await (const chunk of stream) {
    const lines = (partial + (chunk as Buffer).toString('utf8')).split('\n');
    partial = lines.pop() ?? '';
    lines.forEach(take);
  }
  take(partial);
}
