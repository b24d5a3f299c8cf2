/**
 * The name under which the gateways know a replica: its base URL without `/v1`, slashes at the end and credentials. A trainer
 * may well write it as it wrote it for the workers.
 */
export function policyReplicaName(url: string): string {
  if (!URL.canParse(url)) return url;
  const { origin, pathname } = new URL(url);
  return origin === 'null' ? url : `${origin}${pathname.replace(/\/+$/, '').replace(/\/v1$/, '')}`;
}
