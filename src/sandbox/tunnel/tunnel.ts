import { setTimeout as delay } from 'node:timers/promises';
import { EpisodeError } from '../../contracts/index.ts';
import { silentLogger, type Logger } from '../../observe/index.ts';
import { infraFailure, reasonOf } from '../sandbox-failure.ts';
import { AttachError, Channel, type ChannelOptions } from './channel.ts';
import type { Tunnel, TunnelOptions, TunnelStats } from './contract.ts';
import { encodeFrame, frameType, isNumbered, type Frame } from './frame.ts';
import { frameBytes, Session } from './session.ts';
import { noRelay, startRelay, type RelayPlace } from './start-relay.ts';
import { Streams } from './streams.ts';

/** Bytes that came and milliseconds that passed before they are acknowledged, when nothing else is sent. */
const ackBytes = 64 * 1024;
const ackMs = 10;
const backoffMs = [0, 50, 200, 500, 1_000];
/** Channels in a row over which nothing came, after which another one is in vain. */
const maxFailures = 100;

type State = Tunnel['state'];

function unnumbered(type: number, number = 0): Buffer {
  return encodeFrame({ type, flag: 0, stream: 0, number });
}

class OpenTunnel implements Tunnel {
  readonly #place: RelayPlace;
  readonly #options: Required<Omit<TunnelOptions, 'signal' | 'log'>>;
  readonly #log: Logger;
  readonly #targets = new Map<string, string | null>();
  readonly #session = new Session();
  readonly #streams: Streams;
  readonly #lost = new AbortController();
  readonly #closing = new AbortController();
  readonly #leaving = new Set<Promise<void>>();
  #sessionId = '';
  #channel: Channel | null = null;
  #state: State = 'reopening';
  #running: Promise<void> = Promise.resolve();
  #disposal: Promise<void> | undefined;
  #owed = 0;
  #ackTimer: NodeJS.Timeout | undefined;
  #wasFull = false;
  /** Channels in a row over which nothing came. */
  #failures = 0;
  #reopened = 0;
  #resent = 0;
  #restarted = 0;

  constructor(options: TunnelOptions) {
    const { signal: _signal, log, ...rest } = options;
    this.#options = {
      directory: '/run/rollpool-tunnel',
      openMs: 60_000,
      reopenMs: 60_000,
      pingMs: 10_000,
      silenceMs: 30_000,
      lingerSeconds: 120,
      ...rest,
    };
    this.#log = log ?? silentLogger;
    this.#place = this.#options;
    for (const { name, target } of options.routes) this.#targets.set(name, target);
    this.#streams = new Streams({
      send: (type, flag, stream, payload) => this.#send(type, flag, stream, payload),
      full: () => this.#session.full,
      targetOf: (route) => this.#targets.get(options.routes[route]?.name ?? '') ?? null,
    });
  }

  get state(): State {
    return this.#state;
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  setTarget(name: string, path: string | null): void {
    if (!this.#targets.has(name)) throw new RangeError(`this tunnel has no route ${JSON.stringify(name)}`);
    this.#targets.set(name, path);
  }

  stats(): TunnelStats {
    return {
      reopened: this.#reopened,
      resent: this.#resent,
      restarted: this.#restarted,
      ...this.#streams.counts,
    };
  }

  /** Starts the relay and opens the first channel. */
  async open(signal: AbortSignal): Promise<void> {
    const deadline = Date.now() + this.#options.openMs;
    const bounded = AbortSignal.any([signal, AbortSignal.timeout(this.#options.openMs)]);
    try {
      await startRelay(this.#place, this.#options.openMs, signal);
      await this.#openChannel(bounded, deadline);
    } catch (error) {
      await this[Symbol.asyncDispose]();
      signal.throwIfAborted();
      if (error instanceof EpisodeError) throw error;
      throw infraFailure('tunnel_failed', `the tunnel to the gateway did not open: ${reasonOf(error)}`, {
        phase: 'boot',
        cause: error,
      });
    }
    this.#running = this.#run();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposal ??= (async () => {
      if (this.#state !== 'lost') this.#state = 'closed';
      this.#closing.abort();
      clearTimeout(this.#ackTimer);
      this.#streams.reset();
      this.#channel?.close(unnumbered(frameType.bye));
      await this.#running;
      await Promise.all(this.#leaving);
    })();
    await this.#disposal;
  }

  /** Opens the channel again whenever it broke, until the tunnel is closed or lost. */
  async #run(): Promise<void> {
    while (this.#channel !== null) {
      const why = await this.#channel.broken;
      this.#channel = null;
      if (this.#closing.signal.aborted) return;
      this.#state = 'reopening';
      this.#log.warn({ why }, 'the channel of a tunnel broke');
      await this.#reopen(why);
    }
  }

  async #reopen(why: string): Promise<void> {
    const deadline = Date.now() + this.#options.reopenMs;
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(this.#options.reopenMs)]);
    let last: unknown = why;
    while (!signal.aborted && this.#failures < maxFailures) {
      try {
        await delay(backoffMs[Math.min(this.#failures++, backoffMs.length - 1)] ?? 0, undefined, { signal });
        await this.#openChannel(signal, deadline);
        this.#reopened++;
        this.#log.info(this.stats(), 'the channel of a tunnel is open again');
        return;
      } catch (error) {
        if (signal.aborted) break;
        last = error;
        if (error instanceof EpisodeError && error.failure.code === 'sandbox_gone') break;
        this.#log.debug({ err: error }, 'the channel of a tunnel did not open');
        if (error instanceof AttachError && error.exitCode === noRelay) {
          await startRelay(this.#place, deadline - Date.now(), signal).catch((cause: unknown) => {
            last = cause;
          });
        }
      }
    }
    if (this.#closing.signal.aborted) return;
    this.#state = 'lost';
    this.#streams.reset();
    const message = `the tunnel to the sandbox broke (${why}) and could not be opened again: ${reasonOf(last)}`;
    this.#log.warn(message);
    this.#lost.abort(infraFailure('tunnel_lost', message, { cause: last }));
  }

  async #openChannel(signal: AbortSignal, deadline: number): Promise<void> {
    const { routes, pingMs, silenceMs } = this.#options;
    const options: ChannelOptions = {
      pingMs,
      silenceMs: Math.min(silenceMs, Math.max(1, deadline - Date.now())),
      signal,
      hello: [
        `session ${this.#sessionId}`,
        `received ${this.#session.received}`,
        `silence_ms ${silenceMs * 2}`,
        ...routes.map(({ listen }) =>
          'tcp' in listen
            ? `route tcp ${listen.tcp}`
            : `route unix ${(listen.mode ?? 0o666).toString(8)} ${listen.unix}`,
        ),
      ],
    };
    const { channel, hello } = await Channel.open(this.#place, options);
    const leaving = channel.left.finally(() => this.#leaving.delete(leaving));
    this.#leaving.add(leaving);
    try {
      signal.throwIfAborted();
      if (hello.session !== this.#sessionId) this.#begin(hello.session);
      const again = this.#session.resume(hello.received);
      this.#resent += again.length;
      for (const bytes of again) channel.write(bytes);
    } catch (error) {
      channel.break('it was not taken');
      throw error;
    }
    this.#channel = channel;
    this.#state = 'open';
    this.#owed = 0;
    channel.onFrame((frame) => {
      this.#take(frame);
      this.#failures = 0;
    });
    this.#streams.proceed();
  }

  /** The relay knows nothing of what was before. */
  #begin(session: string): void {
    if (this.#sessionId !== '') {
      this.#restarted++;
      this.#log.warn(this.stats(), 'the relay of a tunnel is a new one: its connections are reset');
    }
    this.#sessionId = session;
    this.#streams.reset();
    this.#session.reset();
  }

  #send(type: number, flag: number, stream: number, payload?: Uint8Array): void {
    if (this.#closing.signal.aborted || this.#lost.signal.aborted) return;
    const bytes = this.#session.number(type, flag, stream, payload);
    this.#channel?.write(bytes);
    if (this.#owed > 0) this.#acknowledge();
  }

  #take(frame: Frame): void {
    if (isNumbered(frame.type)) {
      this.#session.take(frame);
      this.#owed += frameBytes(frame);
      this.#streams.take(frame);
      if (this.#owed >= ackBytes) this.#acknowledge();
      else if (this.#owed > 0) this.#ackTimer ??= setTimeout(() => this.#acknowledge(), ackMs);
    } else if (frame.type === frameType.ack) {
      this.#wasFull ||= this.#session.full;
      this.#session.acknowledge(frame.number);
      this.#resume();
    } else if (frame.type === frameType.ping) {
      this.#channel?.write(unnumbered(frameType.pong));
    }
  }

  #acknowledge(): void {
    clearTimeout(this.#ackTimer);
    this.#ackTimer = undefined;
    this.#owed = 0;
    this.#channel?.write(unnumbered(frameType.ack, this.#session.received));
  }

  /** Reads on where it was held back for want of room. */
  #resume(): void {
    if (!this.#wasFull || this.#session.full) return;
    this.#wasFull = false;
    this.#streams.proceed();
  }
}

/**
 * Opens a tunnel into a sandbox: connections made at its routes inside reach Unix sockets on this machine. Rejects with
 * an EpisodeError (class task, `no_python`: no python3 of 3.8 or newer inside; infra otherwise) or the signal's reason.
 */
export async function openTunnel(options: TunnelOptions): Promise<Tunnel> {
  options.signal.throwIfAborted();
  const tunnel = new OpenTunnel(options);
  await tunnel.open(options.signal);
  return tunnel;
}
