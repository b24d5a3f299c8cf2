export type { LocalEnvironment } from './environment.ts';
export { EnvironmentFolderError } from './folder-error.ts';
export { loadEnvironment, loadEnvironments } from './load.ts';
export { shippedEnvironments } from './shipped.ts';
