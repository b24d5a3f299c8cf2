import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countJunit, JunitError } from '../../src/grading/junit.ts';

const casesOf = {
  passed: '<testcase classname="a" name="b" time="0.1"/>',
  failed:
    '<testcase name="b"><failure message="assert 1 &lt; 0"><![CDATA[<testcase/>]]></failure></testcase>',
  errors: '<testcase name="b"><system-out>text</system-out><error type="x">boom</error></testcase>',
  skipped: '<testcase name="b"><skipped type="pytest.xfail"/></testcase>',
};
type State = keyof typeof casesOf;
const states = Object.keys(casesOf) as State[];

type Suite = { cases: State[]; suites: Suite[] };
const { suite } = fc.letrec<{ suite: Suite }>((tie) => ({
  suite: fc.record({
    cases: fc.array(fc.constantFrom(...states), { maxLength: 5 }),
    suites: fc.oneof({ maxDepth: 4 }, fc.constant<Suite[]>([]), fc.array(tie('suite'), { maxLength: 3 })),
  }),
}));
const render = (one: Suite): string =>
  `<testsuite name="s" tests="999" failures="0">\n${one.suites.map(render).join('')}${one.cases.map((state) => casesOf[state]).join('\n')}</testsuite>`;
const flatten = (one: Suite): State[] => [...one.cases, ...one.suites.flatMap(flatten)];

describe('a JUnit report', () => {
  it('is counted by its test cases, however its suites are nested and whatever they claim', () => {
    fc.assert(
      fc.property(fc.array(suite, { maxLength: 3 }), (suites) => {
        const xml = `<?xml version="1.0" encoding="utf-8"?><testsuites>${suites.map(render).join('')}</testsuites>`;
        const all = suites.flatMap(flatten);
        const counts = countJunit(xml);
        for (const state of states) {
          expect(counts[state]).toBe(all.filter((one) => one === state).length);
        }
        expect(counts.tests).toBe(all.length);
      }),
    );
  });

  it('is refused when a killed writer left only a part of it', () => {
    const xml = `<testsuites>${render({ cases: states, suites: [] })}</testsuites>`;
    for (let cut = 0; cut < xml.length; cut += 1) {
      expect(() => countJunit(xml.slice(0, cut)), xml.slice(0, cut)).toThrow(JunitError);
    }
  });

  it('counts the worst of what a test case says', () => {
    const both = '<testcase><skipped/><failure/><error/></testcase>';
    expect(countJunit(`<testsuite>${both}</testsuite>`)).toMatchObject({ tests: 1, errors: 1, failed: 0 });
  });

  it('is not led astray by output that looks like test cases', () => {
    const xml =
      '<testsuite><testcase name="a"><failure><testcase/></failure></testcase><system-out><failure/></system-out></testsuite>';
    expect(countJunit(xml)).toEqual({ tests: 1, passed: 0, failed: 1, errors: 0, skipped: 0 });
  });

  it('does not expand entities that it declares itself', () => {
    const bomb =
      '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>';
    expect(() => countJunit(bomb)).toThrow(JunitError);
  });

  it.each(['', 'not xml', '<html/>', '<testsuite/><testsuite/>', '<testsuite></testsuites>', '{"tests":1}'])(
    'is refused: %j',
    (text) => {
      expect(() => countJunit(text)).toThrow(JunitError);
    },
  );

  it('never fails in any other way', () => {
    fc.assert(
      fc.property(
        fc.string({
          unit: fc.constantFrom('<', '>', '/', 'testsuite', 'testcase', ' ', '"', '&', '=', '!--', '?'),
        }),
        (text) => {
          try {
            countJunit(text);
          } catch (error) {
            expect(error).toBeInstanceOf(JunitError);
          }
        },
      ),
    );
  });
});
