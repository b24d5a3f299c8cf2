/** What is wrong with one field; `field` is a path such as `verify.commands`, or '' for the task as a whole. */
export interface FieldFault {
  readonly field: string;
  readonly reason: string;
}
