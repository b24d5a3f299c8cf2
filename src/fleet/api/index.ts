export { withSlash } from './addresses.ts';
export { FleetApiError } from './api-error.ts';
export { FleetClient } from './client.ts';
export { createBody, imageTypeOf } from './create-body.ts';
export { deadlineAfter, graceAfter } from './deadline.ts';
export { pause } from './pause.ts';
export type { Execution, Instance } from './wire.ts';
