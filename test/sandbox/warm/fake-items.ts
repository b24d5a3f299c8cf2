import type { ShelfItem } from '../../../src/sandbox/warm/warm-shelf.ts';

export interface FakeItem extends ShelfItem {
  readonly key: string;
  readonly id: number;
}

/** Makes items that live only here, keeps account of each, and lets a test decide when a making or a removal ends. */
export class FakeItems {
  readonly making: { readonly key: string; readonly done: () => void; readonly fail: () => void }[] = [];
  readonly removing: (() => void)[] = [];
  readonly living = new Set<FakeItem>();
  readonly sick = new Set<number>();
  made = 0;
  removed = 0;
  #next = 1;
  readonly #slow: boolean;

  /** `slow`: what is begun ends only when the test says so. */
  constructor(slow: boolean) {
    this.#slow = slow;
  }

  /** What exists: being made, alive, being removed. */
  get count(): number {
    return this.making.length + this.living.size;
  }

  readonly make =
    (key: string, keep_ms = 600_000) =>
    async (): Promise<FakeItem> => {
      if (this.#slow) {
        await new Promise<void>((resolve, reject) => {
          const leave = (): void => void this.making.splice(this.making.indexOf(entry), 1);
          const entry = {
            key,
            done: () => {
              leave();
              resolve();
            },
            fail: () => {
              leave();
              reject(new Error('it could not be made'));
            },
          };
          this.making.push(entry);
        });
      }
      this.made++;
      const id = this.#next++;
      const item: FakeItem = {
        key,
        id,
        keep_ms,
        check: async () => this.living.has(item) && !this.sick.has(id),
        [Symbol.asyncDispose]: async () => {
          if (!this.living.has(item)) throw new Error(`item ${id} was removed twice`);
          if (this.#slow) await new Promise<void>((resolve) => this.removing.push(resolve));
          this.living.delete(item);
          this.removed++;
        },
      };
      this.living.add(item);
      return item;
    };
}
