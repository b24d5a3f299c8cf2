/** What a process has opened, to be closed in the opposite order, once. */
export interface OpenedParts extends AsyncDisposable {
  /** Remembers a part and gives it back. */
  readonly keep: <T extends AsyncDisposable>(part: T) => T;
}

export function openedParts(): OpenedParts {
  const opened: AsyncDisposable[] = [];
  return {
    keep: (part) => {
      opened.push(part);
      return part;
    },
    [Symbol.asyncDispose]: async () => {
      for (const part of opened.splice(0).reverse()) await part[Symbol.asyncDispose]();
    },
  };
}
