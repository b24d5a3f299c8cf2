export { passAt } from './pass-at.ts';
export { summarise } from './summary.ts';
