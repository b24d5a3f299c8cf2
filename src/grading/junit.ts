import sax from 'sax';

export interface JunitCounts {
  readonly tests: number;
  readonly passed: number;
  /** Test cases with a `failure`. */
  readonly failed: number;
  /** Test cases with an `error`. */
  readonly errors: number;
  readonly skipped: number;
}

/** Longest JUnit file read, in bytes. */
export const maxJunitBytes = 32 * 1024 * 1024;

/** A file that is no JUnit report. */
export class JunitError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'JunitError';
  }
}

type CaseState = 'passed' | 'failed' | 'errors' | 'skipped';
/** When a test case says several things, the worst of them counts: pytest reports a failing teardown beside the test. */
const severity: Readonly<Record<CaseState, number>> = { passed: 0, skipped: 1, failed: 2, errors: 3 };
const stateOf: Readonly<Record<string, CaseState>> = {
  failure: 'failed',
  error: 'errors',
  skipped: 'skipped',
};

function localName(name: string): string {
  return name.slice(name.indexOf(':') + 1);
}

/**
 * Counts the test cases of a JUnit report; suites may be nested to any depth, and the counts that suites claim in their
 * attributes are not believed. A test that was skipped has not passed, nor has an expected failure (pytest reports it as
 * skipped): otherwise code under test could raise its reward by skipping what it cannot do. Throws JunitError when the
 * text is not well-formed XML to its last byte (a killed writer leaves half a file) or its root is no test suite.
 *
 * The parser is strict and knows only the five entities of XML and character references: entities a document declares
 * are errors, so none expands.
 */
export function countJunit(xml: string): JunitCounts {
  const counts = { passed: 0, failed: 0, errors: 0, skipped: 0 };
  const path: string[] = [];
  let current: CaseState | null = null;
  let sawRoot = false;
  const parser = sax.parser(true);
  const fail = (why: string): never => {
    throw new JunitError(why);
  };
  parser.onerror = (error) => fail(error.message.split('\n')[0] ?? 'not well-formed');
  parser.onopentag = ({ name }) => {
    const tag = localName(name);
    if (path.length === 0) {
      if (sawRoot) fail('more than one root element');
      if (tag !== 'testsuites' && tag !== 'testsuite') fail(`the root element is <${name}>`);
      sawRoot = true;
    }
    if (tag === 'testcase' && current === null) current = 'passed';
    else if (current !== null && path.at(-1) === 'testcase') {
      const said = stateOf[tag];
      if (said !== undefined && severity[said] > severity[current]) current = said;
    }
    path.push(tag);
  };
  parser.onclosetag = () => {
    const tag = path.pop();
    if (tag === 'testcase' && current !== null && !path.includes('testcase')) {
      counts[current] += 1;
      current = null;
    }
  };
  parser.write(xml).close();
  if (!sawRoot) fail('no root element');
  return { ...counts, tests: counts.passed + counts.failed + counts.errors + counts.skipped };
}
