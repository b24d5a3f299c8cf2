export { EnvironmentFolderError, loadEnvironments, shippedEnvironments } from './environment/index.ts';
export type { LocalEnvironment } from './environment/index.ts';
export type { FaultInput } from './server/faults/fault.ts';
export type { FaultSwitch, SwitchedFault } from './server/faults/fault-switch.ts';
export {
  LocalFleetStartError,
  startLocalFleet,
  type LiveInstance,
  type LocalFleet,
  type LocalFleetOptions,
} from './server/local-fleet.ts';
export { probePython } from './verifier/python.ts';
