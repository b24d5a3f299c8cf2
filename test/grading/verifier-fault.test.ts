import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { VerifierAnswer } from '../../src/fleet/environment.ts';
import { faultOf } from '../../src/grading/verifier-fault.ts';

function failed(
  type: string,
  message: string,
  more: Partial<VerifierAnswer> = {},
  traceback = '',
): VerifierAnswer {
  const error = { type, message, traceback };
  return { success: false, result: null, error, stdout: '', execution_ms: 1, ...more };
}

describe('an execution that failed is blamed on', () => {
  const broken = ['task', 'verifier_broken', false] as const;
  const raised = ['task', 'verifier_raised', true] as const;
  const late = ['infra', 'verifier_timeout', true] as const;
  const unavailable = ['infra', 'verifier_unavailable', true] as const;

  it.each([
    ['SyntaxError', "'(' was never closed (verifier.py, line 4)", ...broken],
    ['IndentationError', 'unexpected indent', ...broken],
    ['TabError', 'inconsistent use of tabs and spaces', ...broken],
    ['NameError', "name 'enviroment' is not defined", ...broken],
    ['ImportError', "cannot import name 'x' from 'y'", ...broken],
    ['ModuleNotFoundError', "No module named 'pandas'", ...broken],
    ['AttributeError', "module 'verifier' has no attribute 'validate_task'", ...broken],
    ['RuntimeError', "Function 'validate_task' not found in bundle", ...broken],
    ['FunctionNotFound', 'no such function', ...broken],
    ['', 'the source defines no function', ...broken],

    ['AttributeError', "'NoneType' object has no attribute 'get'", ...raised],
    ['TypeError', "'NoneType' object is not subscriptable", ...raised],
    ['KeyError', "'timeout'", ...raised],
    ['IndexError', 'list index out of range', ...raised],
    ['ValueError', "invalid literal for int() with base 10: 'four'", ...raised],
    ['AssertionError', 'the connection field is wrong', ...raised],
    ['ZeroDivisionError', 'division by zero', ...raised],
    ['RecursionError', 'maximum recursion depth exceeded', ...raised],
    ['SystemExit', '1', ...raised],
    ['UnboundLocalError', "cannot access local variable 'x'", ...raised],
    ['UnicodeDecodeError', "'utf-8' codec can't decode byte 0xff", ...raised],
    ['sqlite3.OperationalError', 'no such table: bookings', ...raised],
    ['RuntimeError', 'Query failed: no such column: foo', ...raised],

    ['TimeoutError', '', ...late],
    ['ReadTimeout', 'The read operation', ...late],
    ['Exception', 'Verifier execution timed out after 30 seconds', ...late],
    ['ExecutionError', 'time limit of 30 s', ...late],

    ['ConnectionError', 'connection refused', ...unavailable],
    ['HTTPStatusError', "Server error '502 Bad Gateway' for url", ...unavailable],
    ['RuntimeError', 'Instance abc is not running', ...unavailable],
    ['ValueError', 'status 503 from the instance', ...unavailable],
    ['JSONDecodeError', 'Expecting value: line 1 column 1 (char 0)', ...unavailable],
    ['MemoryError', '', ...unavailable],
    ['OSError', '[Errno 11] Resource temporarily unavailable', ...unavailable],
    ['sqlite3.OperationalError', 'database is locked', ...unavailable],
    ['ValidationError', '1 validation error for QueryResponse', ...unavailable],
    ['SomethingNew', 'whatever', ...unavailable],
  ])('%s: %s -> %s, %s', (type, message, blamed, code, retry) => {
    const fault = faultOf(failed(type, message));
    expect(fault).toMatchObject({ class: blamed, code, retry });
    expect(fault?.message).toContain(type);
    expect(fault?.message).toContain(message);
  });

  it('the verifier when it cannot read an answer as JSON, the service when an instance spoke none', () => {
    const says = ['JSONDecodeError', 'Expecting value: line 1 column 1 (char 0)', {}] as const;
    const own =
      'File "verifier.py", line 9, in verify\n  json.loads(final_answer)\nFile "json/decoder.py", line 355';
    expect(faultOf(failed(...says, own))).toMatchObject({ code: 'verifier_raised' });
    const sdk =
      'File "site-packages/fleet/resources/sqlite.py", line 9\n  return Response(**response.json())';
    expect(faultOf(failed(...says, sdk))).toMatchObject({ code: 'verifier_unavailable' });
  });

  it('the judge when it says so, whatever the verifier made of that', () => {
    const stdout = '[C] Calling judge\nJUDGE ERROR: 429 rate limited\n';
    const judge = { class: 'infra', code: 'judge_failed', retry: true } as const;
    const zero: VerifierAnswer = { success: true, result: 0, error: null, stdout, execution_ms: 1 };
    expect(faultOf(zero)).toMatchObject(judge);
    expect(faultOf(zero)?.message).toContain('JUDGE ERROR: 429 rate limited');
    expect(faultOf(failed('KeyError', "'score'", { stdout }))).toMatchObject(judge);
    expect(faultOf({ ...zero, stdout: '[STDOUT] JUDGE ERROR: x' })).toMatchObject(judge);
    expect(faultOf({ ...zero, stdout: 'no JUDGE ERROR: here' })).toBeNull();
  });

  it('the service when there is no reason at all', () => {
    const fault = faultOf({ ...failed('', ''), error: null });
    expect(fault).toMatchObject({ class: 'infra', code: 'verifier_unavailable' });
    expect(fault?.message).toContain('no reason');
  });

  it('somebody in any case, on one short line', () => {
    const anyAnswer = fc.record({
      success: fc.constant(false),
      result: fc.anything(),
      error: fc.option(fc.record({ type: fc.string(), message: fc.string(), traceback: fc.string() })),
      stdout: fc.string(),
      execution_ms: fc.constant(null),
    });
    fc.assert(
      fc.property(anyAnswer, (answer) => {
        const fault = faultOf(answer);
        expect(fault).not.toBeNull();
        expect(fault?.message).not.toMatch(/\n/);
      }),
    );
    const long = faultOf(failed('KeyError\n'.repeat(10_000), `${'function '.repeat(100_000)}`));
    expect(long?.message.length).toBeLessThan(600);
  });
});
