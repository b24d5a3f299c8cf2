import { connect, type Socket } from 'node:net';
import { whyNotReachable, type Network } from './addresses.ts';
import { EgressError } from './refusal.ts';
import type { Resolve } from './resolve.ts';
import { showTarget, type Target } from './target.ts';

/** Addresses of one name that are tried before it counts as out of reach. */
const tries = 4;

export interface DialOptions {
  readonly resolve: Resolve;
  /** Networks that are private and may be connected to all the same. */
  readonly allowPrivate: readonly Network[];
  readonly ownAddresses: () => ReadonlySet<string>;
  /** Milliseconds for the name and the connection together. */
  readonly connectMs: number;
}

function rejection(signal: AbortSignal): { promise: Promise<never>; forget: () => void } {
  let onAbort = (): void => undefined;
  const promise = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason as Error);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  return { promise, forget: () => signal.removeEventListener('abort', onAbort) };
}

/** Connects to one address, which is never looked up again. */
async function connectTo(address: string, port: number, aborted: Promise<never>): Promise<Socket> {
  // The other side may close its direction first and still read.
  const socket = connect({ host: address, port, allowHalfOpen: true, noDelay: true });
  // Its owner learns of a later failure by its end.
  socket.on('error', () => undefined);
  try {
    const connected = new Promise<void>((resolve, reject) => {
      socket.once('connect', resolve);
      socket.once('error', reject);
    });
    await Promise.race([connected, aborted]);
    return socket;
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

async function addressesOf(target: Target, options: DialOptions, aborted: Promise<never>): Promise<string[]> {
  let found: readonly string[];
  try {
    found = target.isAddress ? [target.host] : await Promise.race([options.resolve(target.host), aborted]);
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error)) throw error;
    throw new EgressError('failed', `the name ${target.host} is not known (${String(error.code)})`);
  }
  const own = options.ownAddresses();
  const reachable: string[] = [];
  let why = 'no address';
  for (const address of found) {
    const refused = whyNotReachable(address, options.allowPrivate, own);
    if (refused === null) reachable.push(address);
    else why = refused;
  }
  if (reachable.length > 0) return reachable.slice(0, tries);
  const is = target.isAddress ? 'is' : 'stands for';
  throw new EgressError('forbidden', `${showTarget(target)} ${is} ${why}, which sandboxes do not reach`);
}

/**
 * Connects to a target that is on the list, by the addresses that its name stands for now. They are asked for once, and
 * the connection goes to one that was found fit, so that a name cannot change its address in between.
 *
 * Rejects with EgressError, or with the signal's reason.
 */
export async function dial(target: Target, options: DialOptions, signal: AbortSignal): Promise<Socket> {
  const deadline = AbortSignal.timeout(options.connectMs);
  const { promise: aborted, forget } = rejection(AbortSignal.any([signal, deadline]));
  aborted.catch(() => undefined);
  try {
    let failure: unknown;
    for (const address of await addressesOf(target, options, aborted)) {
      try {
        return await connectTo(address, target.port, aborted);
      } catch (error) {
        if (signal.aborted || deadline.aborted) throw error;
        failure = error;
      }
    }
    const code = (failure as NodeJS.ErrnoException | undefined)?.code ?? 'no connection';
    throw new EgressError('failed', `${showTarget(target)} cannot be reached (${code})`);
  } catch (error) {
    if (!signal.aborted && deadline.aborted) {
      const seconds = options.connectMs / 1000;
      throw new EgressError('failed', `${showTarget(target)} did not answer within ${seconds} s`, 504);
    }
    throw error;
  } finally {
    forget();
  }
}
