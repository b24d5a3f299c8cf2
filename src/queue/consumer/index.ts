export { createConsumer, type Consumer } from './consumer.ts';
export { DeliveriesLostError, type FollowedResult, type FollowOptions } from './follow-results.ts';
export type { GroupsOptions, ReadGroup } from './group-reader.ts';
