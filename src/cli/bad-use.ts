/** The user has to change something: printed as one line, exit code 2. */
export class BadUse extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BadUse';
  }
}

export const exitCodes = { done: 0, someFailed: 1, badUse: 2 } as const;
