import { join } from 'node:path';
import type { FieldFault } from '../../field-fault.ts';

/** What is found about one task directory while it is read: what it cannot be right without, and what is left aside. */
export class Notes {
  readonly faults: FieldFault[] = [];
  readonly warnings: FieldFault[] = [];
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** `file` is relative to the task's directory; `field` a path in it, or ''. */
  fault(file: string, field: string, reason: string, line?: number): void {
    this.faults.push(this.#note(file, field, reason, line));
  }

  warn(file: string, field: string, reason: string): void {
    this.warnings.push(this.#note(file, field, reason));
  }

  #note(file: string, field: string, reason: string, line?: number): FieldFault {
    return { file: join(this.#directory, file), ...(line === undefined ? {} : { line }), field, reason };
  }
}
