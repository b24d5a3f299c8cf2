export type {
  Environment,
  EnvironmentProvider,
  EnvironmentRequest,
  EnvironmentState,
  ToolCallOptions,
  ToolResult,
  VerifierAnswer,
  VerifierRequest,
} from './environment.ts';
export { createFleetProvider, type FleetProviderOptions } from './provider.ts';
