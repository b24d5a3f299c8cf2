/** The user has to change something: printed as one line, exit code 2. */
export class BadUse extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BadUse';
  }
}

/** It cannot go on, and no other use of the command would have helped: printed as it stands, exit code 1. */
export class RunFailed extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'RunFailed';
  }
}

export const exitCodes = { done: 0, someFailed: 1, badUse: 2 } as const;
