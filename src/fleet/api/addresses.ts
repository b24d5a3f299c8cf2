/** Where the vendor's service answers unless another address is named. Source: the vendor's SDK. */
export const globalBaseUrl = 'https://orchestrator.fleetai.com';

const regionBaseUrls: ReadonlyMap<string, string> = new Map([
  ['us-west-1', 'https://us-west-1.fleetai.com'],
  ['us-east-1', 'https://us-east-1.fleetai.com'],
  ['eu-west-2', 'https://eu-west-2.fleetai.com'],
  ['staging', 'https://staging.fleetai.com'],
]);

/** A base URL as paths are appended to it: http or https, no name and password in it, no slash at the end. Throws for anything else. */
export function normalizeBaseUrl(url: string | null): string {
  if (url === null) return globalBaseUrl;
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed?.protocol !== 'http:' && parsed?.protocol !== 'https:') {
    throw new TypeError('the Fleet base URL must begin with http:// or https://');
  }
  return `${parsed.origin}${parsed.pathname}`.replace(/\/+$/, '');
}

/**
 * Where an instance is created: its region's own address, but only when nobody named another base URL. Every later call
 * goes to the base URL. Source: the vendor's SDK.
 */
export function createBaseUrl(baseUrl: string, region: string | null): string {
  if (region === null || baseUrl !== globalBaseUrl) return baseUrl;
  return regionBaseUrls.get(region) ?? baseUrl;
}

/** An instance's root as `mcp` and `api/v1/mcp` are appended to it. */
export function withSlash(root: string): string {
  return root.endsWith('/') ? root : `${root}/`;
}

/** Base of the instance manager: what the instance says, else its usual place below the root. */
export function managerUrl(root: string, manager: string | null | undefined): string {
  return (manager ?? `${withSlash(root)}api/v1/env`).replace(/\/+$/, '');
}
