import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { verifierCall } from '../../../src/fleet/verifier/call.ts';
import { readSignature } from '../../../src/fleet/verifier/signature.ts';
import { askPython, pythonSignature } from './python.ts';

const real = new URL('../../../../shared/data/fleet_booking_tasks.json', import.meta.url).pathname;
const present = existsSync(real);
if (!present) console.log('skipped: the exported booking tasks are not beside the project (../shared/data)');

interface Exported {
  readonly key: string;
  readonly verifier_func: string;
}

/** What CPython makes of one call: it unzips, compiles, parses and unpickles. */
interface Seen {
  readonly source: string;
  readonly requirements: string;
  readonly compiles: boolean;
  readonly signature: unknown;
  readonly args: unknown;
}

const seenByPython = `${pythonSignature}
import base64, hashlib, io, json, pickle, sys, zipfile
def seen(call):
    data = base64.b64decode(call["bundle"])
    assert hashlib.sha256(data).hexdigest() == call["sha256"]
    zip = zipfile.ZipFile(io.BytesIO(data))
    assert zip.testzip() is None
    source = zip.read("verifier.py")
    args = pickle.loads(base64.b64decode(call["args"]))
    return {
        "source": source.decode("utf-8"),
        "requirements": zip.read("requirements.txt").decode("utf-8"),
        "compiles": compile(source, "verifier.py", "exec") is not None,
        "signature": signature(source),
        "args": [type(args["args"]).__name__, *args["args"], args["kwargs"]],
    }
print(json.dumps([seen(call) for call in json.load(sys.stdin)]))`;

describe.skipIf(!present)('the verifiers of the exported booking tasks', () => {
  it('bundle, name their function and pickle as CPython reads them', () => {
    const tasks = JSON.parse(readFileSync(real, 'utf8')) as Exported[];
    expect(tasks).toHaveLength(100);
    const calls = tasks.map(({ key, verifier_func }) =>
      verifierCall({
        task: { task_key: key, region: null, verifier_runtime_version: null },
        code: verifier_func,
        instance_id: `instance of ${key}`,
        final_answer: `the answer to ${key} ✓`,
        conversation: [{ role: 'user', content: 'Book.' }],
        timeout_seconds: 60,
      }),
    );
    const seen = askPython(
      seenByPython,
      calls.map(({ bundle, sha256, body }) => ({
        bundle: Buffer.from(bundle).toString('base64'),
        sha256,
        args: body.args,
      })),
    ) as Seen[];
    for (const [index, { key, verifier_func }] of tasks.entries()) {
      expect(seen[index], key).toEqual({
        source: verifier_func,
        requirements: 'fleet-python',
        compiles: true,
        signature: readSignature(verifier_func),
        args: ['tuple', null, { env: `instance of ${key}` }, { final_answer: `the answer to ${key} ✓` }],
      });
      expect(calls[index]?.body.function_name).toBe(readSignature(verifier_func).name);
    }
    // One bundle for each verifier, whichever task asks: what is on the server already is not sent again.
    expect(new Set(calls.map(({ sha256 }) => sha256)).size).toBe(
      new Set(tasks.map((t) => t.verifier_func)).size,
    );
  });
});
