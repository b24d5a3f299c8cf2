export { passAt } from './pass-at.ts';
export { summarise, type RunSummary, type SummaryOptions, type TaskSummary } from './summary.ts';
export type { Tally } from './tally.ts';
export type { TokenBucket } from './token-buckets.ts';
