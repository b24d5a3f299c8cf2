export { createCommandGrader } from './command-grader.ts';
export { GradeError } from './grade-error.ts';
export type { Grade, Grader } from './grader.ts';
export { createVerifierGrader, type VerifierGraderOptions } from './verifier-grader.ts';
