import { createHash } from 'node:crypto';
import { zipSync, type ZipOptions } from 'fflate';

export interface VerifierBundle {
  readonly zip: Uint8Array;
  /** Of the ZIP's bytes, hex: the name under which the server keeps it. */
  readonly sha256: string;
}

const encoder = new TextEncoder();

/**
 * The ZIP the execute call takes: `requirements.txt`, and the source as it is in `verifier.py`. The same source gives the
 * same bytes on every machine and with every version of the compressor, so that the server has it after the first upload.
 */
export function bundleVerifier(source: string): VerifierBundle {
  const options: ZipOptions = {
    level: 0,
    // A ZIP has no time zone, and fflate writes local time: made from local parts it is the same text everywhere.
    mtime: new Date(1980, 0, 1, 12),
    os: 3,
    attrs: 0o100644 << 16,
  };
  const zip = zipSync(
    { 'requirements.txt': encoder.encode('fleet-python'), 'verifier.py': encoder.encode(source) },
    options,
  );
  return { zip, sha256: createHash('sha256').update(zip).digest('hex') };
}
