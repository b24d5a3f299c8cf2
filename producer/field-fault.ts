/** What is wrong with one field; `field` is a path such as `verify.commands`, or '' for the task as a whole. */
export interface FieldFault {
  readonly field: string;
  readonly reason: string;
  /** The file it is in, where that is not the tasks file itself; with its line, from 1, where one is known. */
  readonly file?: string;
  readonly line?: number;
}
