import jsonc from 'jsonc-parser';

/** Where JSON is broken; line and column from 1. */
export interface JsonFault {
  readonly line: number;
  readonly column: number;
  readonly reason: string;
}

function words(code: string): string {
  return code.replace(/(?<=[a-z])([A-Z])/g, ' $1').toLowerCase();
}

/** Parses JSON; says where it is broken, which JSON.parse does for some faults only. */
export function parseJson(text: string): { value: unknown } | { fault: JsonFault } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (fault) {
    const errors: jsonc.ParseError[] = [];
    try {
      jsonc.parse(text, errors, { disallowComments: true, allowTrailingComma: false });
    } catch {
      return { fault: { line: 1, column: 1, reason: 'nested too deeply, or never closed' } };
    }
    const [first] = errors;
    if (first === undefined) return { fault: { line: 1, column: 1, reason: (fault as Error).message } };
    const before = text.slice(0, first.offset);
    return {
      fault: {
        line: before.split('\n').length,
        column: first.offset - before.lastIndexOf('\n'),
        reason: words(jsonc.printParseErrorCode(first.error)),
      },
    };
  }
}
