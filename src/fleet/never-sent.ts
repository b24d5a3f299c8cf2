const codes = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether the code of an error says that a connection was never made: the server knows nothing of the request. */
export function wasNeverSent(code: string): boolean {
  return codes.has(code) || isCertificateFault(code);
}

/** Whether it says that the server's certificate was not accepted. */
export function isCertificateFault(code: string): boolean {
  return /^(CERT_|ERR_TLS_|UNABLE_TO_)|SELF_SIGNED/.test(code);
}
