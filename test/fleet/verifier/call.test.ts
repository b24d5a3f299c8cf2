import { describe, expect, it } from 'vitest';
import type { ChatMessage } from '../../../src/contracts/index.ts';
import { bundleVerifier } from '../../../src/fleet/verifier/bundle.ts';
import { verifierCall, type VerifierCallOptions } from '../../../src/fleet/verifier/call.ts';
import { VerifierSourceError } from '../../../src/fleet/verifier/signature.ts';
import { askPython } from './python.ts';

const conversation: readonly ChatMessage[] = [
  { role: 'user', content: 'Book a "hôtel" 🏨' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c1', type: 'function', function: { name: 'book', arguments: '{"id": 7}' } }],
  },
  { role: 'tool', tool_call_id: 'c1', content: 'booked' },
];
const options: VerifierCallOptions = {
  task: { task_key: 'task_isk4', region: null, verifier_runtime_version: null },
  code: 'def validate_task(env, final_answer=None):\n    return 1\n',
  instance_id: 'inst-1',
  final_answer: 'It is booked. ✓',
  conversation,
  timeout_seconds: 30,
};
const call = (differs: Partial<VerifierCallOptions> = {}): ReturnType<typeof verifierCall> =>
  verifierCall({ ...options, ...differs });

/** What CPython unpickles of the calls' arguments; lists tell tuples apart. */
const argumentsOf = (...calls: readonly ReturnType<typeof verifierCall>[]): unknown =>
  askPython(
    `
import base64, json, pickle, sys
read = [pickle.loads(base64.b64decode(args)) for args in json.load(sys.stdin)]
print(json.dumps([{**one, "type": type(one["args"]).__name__} for one in read]))`,
    calls.map(({ body }) => body.args),
  );
const withKeywords = (kwargs: object): unknown => ({
  args: [null, { env: 'inst-1' }],
  kwargs,
  type: 'tuple',
});

describe("a verifier's call", () => {
  it('is what the wire takes', () => {
    const { bundle, sha256, body } = call();
    expect({ zip: bundle, sha256 }).toEqual(bundleVerifier(options.code));
    expect(body).toEqual({
      key: 'task_isk4',
      sha256,
      args: expect.any(String),
      args_array: [{ env: 'inst-1' }],
      function_name: 'validate_task',
      timeout: 30,
      region: 'us-west-1',
    });
    expect(argumentsOf(call())).toEqual([withKeywords({ final_answer: 'It is booked. ✓' })]);
  });

  it("has the task's region and runtime where it has them", () => {
    const task = { task_key: 't', region: 'eu-west-2', verifier_runtime_version: 'py311' };
    expect(call({ task }).body).toMatchObject({ region: 'eu-west-2', verifier_runtime_version: 'py311' });
  });

  it('passes an answer and the conversation to a function that takes them', () => {
    const both = 'async def verify(env, final_answer, conversation): pass';
    const neither = 'def verify(env): pass';
    const any = 'def verify(env, **rest): pass';
    const text = JSON.stringify(conversation);
    expect(
      argumentsOf(
        call({ code: both }),
        call({ code: both, final_answer: null }),
        call({ code: both, final_answer: '', conversation: [] }),
        call({ code: neither }),
        call({ code: any }),
      ),
    ).toEqual([
      withKeywords({ final_answer: 'It is booked. ✓', conversation: text }),
      withKeywords({ conversation: text }),
      withKeywords({ final_answer: '', conversation: '[]' }),
      withKeywords({}),
      withKeywords({ final_answer: 'It is booked. ✓' }),
    ]);
  });

  it('holds nothing that a verifier could not print, whatever the policy wrote', () => {
    const code = 'def verify(env, final_answer, conversation): pass';
    const half: readonly ChatMessage[] = [{ role: 'user', content: 'half \udc00 \\ud800' }];
    expect(argumentsOf(call({ code, final_answer: 'half \ud83c and 🏨', conversation: half }))).toEqual([
      withKeywords({
        final_answer: 'half \uFFFD and 🏨',
        conversation: JSON.stringify([{ role: 'user', content: 'half \uFFFD \\ud800' }]),
      }),
    ]);
  });

  it.each([
    [0, 1],
    [0.2, 1],
    [29.5, 30],
    [300, 300],
    [900, 300],
  ])('given %d seconds asks for %d', (timeout_seconds, timeout) => {
    expect(call({ timeout_seconds }).body.timeout).toBe(timeout);
  });

  it('is the same for the same arguments', () => {
    expect(call()).toEqual(call());
  });

  it('of code without a function is refused before anything is sent', () => {
    expect(() => call({ code: 'x = 1' })).toThrow(VerifierSourceError);
  });
});
