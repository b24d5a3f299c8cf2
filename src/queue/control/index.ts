export { createControl, type Control, type PolicyChange } from './control.ts';
export {
  createCreationGate,
  defaultCreationPace,
  type CreationGateOptions,
  type CreationPace,
  type SharedCreationGate,
} from './creation-gate.ts';
export { createPlaceLimit, type PlaceLimitOptions, type SharedPlaceLimit } from './place-limit.ts';
export { defaultPlacePace, type PlacePace } from './place-limit-pace.ts';
export { startControlListener, type ControlListener, type ControlListenerOptions } from './listener.ts';
export { noPolicyRecord, type PolicyRecord } from './policy-record.ts';
export { PolicyView } from './policy-view.ts';
