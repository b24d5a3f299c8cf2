import type { Logger } from '../../observe/index.ts';
import { isHealthy } from './replica-health.ts';
import type { Replica } from './replica.ts';

/** A replica that was refused is not asked again at once: finding out what it is takes several calls. */
const leaveAloneMs = 30_000;

/**
 * Whether a replica that was down at the start can work: once it is healthy it has to be what the others are, which is
 * asked until it is taken. Why it is not is said in one line, and again only when that changes.
 */
export function latecomer(
  replica: Replica,
  url: string,
  checkMs: number,
  admit: ((url: string, signal: AbortSignal) => Promise<string | null>) | undefined,
  log: Logger,
): (signal: AbortSignal) => Promise<boolean> {
  let taken = admit === undefined;
  let refused: string | null = null;
  let notBefore = 0;
  return async (signal) => {
    if (performance.now() < notBefore || !(await isHealthy(replica, checkMs, signal))) return false;
    if (taken || admit === undefined) return true;
    let why: string | null;
    try {
      why = await admit(url, signal);
    } catch {
      // It went down again, or we close.
      return false;
    }
    if (why === null) return (taken = true);
    notBefore = performance.now() + leaveAloneMs;
    if (why !== refused) log.error({ replica: replica.name }, `a replica of the policy is not used: ${why}`);
    refused = why;
    return false;
  };
}
