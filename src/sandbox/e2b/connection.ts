import type { ConnectionOpts } from 'e2b';

/** How an E2B service is reached. */
export interface E2bConnection {
  /** Stays in this process. */
  readonly apiKey: string;
  /** null: the vendor's, by `domain`. */
  readonly apiUrl: string | null;
  readonly sandboxUrl: string | null;
  /** null: `e2b.app`. */
  readonly domain: string | null;
}

const vendorDomain = 'e2b.app';

/** Whether the service is the vendor's own. */
export function isVendor({ apiUrl, domain }: E2bConnection): boolean {
  return apiUrl === null && (domain ?? vendorDomain) === vendorDomain;
}

/**
 * What every call of the SDK is given: all of it in words, as it would take from the environment what it is not told,
 * and its debug mode calls no service at all (facts: E2B 2.1). No tries of its own: a refusal is for all workers to hear.
 */
export function sdkOptions(
  connection: E2bConnection,
): Required<Pick<ConnectionOpts, 'apiKey' | 'apiUrl' | 'domain' | 'debug' | 'retries'>> &
  Pick<ConnectionOpts, 'sandboxUrl'> {
  const domain = connection.domain ?? vendorDomain;
  return {
    apiKey: connection.apiKey,
    domain,
    apiUrl: connection.apiUrl ?? `https://api.${domain}`,
    debug: false,
    retries: 0,
    ...(connection.sandboxUrl === null ? {} : { sandboxUrl: connection.sandboxUrl }),
  };
}
