import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { bundleVerifier } from '../../../src/fleet/verifier/bundle.ts';
import { askPython } from './python.ts';

const source = '@verifier(key="k")\r\ndef verify(env):\n    return "naïve 🏨"\n';

describe("a verifier's bundle", () => {
  it('is a ZIP that CPython reads: the source as it is, and what it needs', () => {
    const { zip } = bundleVerifier(source);
    const read = askPython(
      `
import base64, io, json, sys, zipfile
zip = zipfile.ZipFile(io.BytesIO(base64.b64decode(json.load(sys.stdin))))
print(json.dumps([zip.testzip(), [[i.filename, i.external_attr >> 16, zip.read(i).decode()] for i in zip.infolist()]]))`,
      Buffer.from(zip).toString('base64'),
    );
    expect(read).toEqual([
      null,
      [
        ['requirements.txt', 0o100644, 'fleet-python'],
        ['verifier.py', 0o100644, source],
      ],
    ]);
  });

  it('has the hash of its bytes for a name', () => {
    const { zip, sha256 } = bundleVerifier(source);
    expect(sha256).toBe(createHash('sha256').update(zip).digest('hex'));
    expect(bundleVerifier(`${source} `).sha256).not.toBe(sha256);
  });

  it('is the same for the same source on another day and in another time zone', () => {
    const module = new URL('../../../src/fleet/verifier/bundle.ts', import.meta.url).href;
    const zones = ['Pacific/Kiritimati', 'America/St_Johns', 'Pacific/Pago_Pago'];
    const script = `
      import { bundleVerifier } from ${JSON.stringify(module)};
      const told = ${JSON.stringify(zones)}.map((zone) => {
        process.env.TZ = zone;
        return [new Date(0).getTimezoneOffset(), bundleVerifier(${JSON.stringify(source)}).sha256];
      });
      process.stdout.write(JSON.stringify(told));`;
    const there = execFileSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script]);
    const { sha256 } = bundleVerifier(source);
    expect(JSON.parse(there.toString())).toEqual([
      [640, sha256],
      [210, sha256],
      [660, sha256],
    ]);
    // What the server has under this name stays there from version to version of this project.
    expect(sha256).toBe('4c5002e10f42c5e69d25c2bca7342e53b758f074e478d1f6ecdd960c3376dd3f');
  });
});
