/** What users of the library may build on. */
export * from './contracts/index.ts';
export {
  agentDone,
  createClaudeCodeAgent,
  createInProcessAgent,
  createStartGate,
  type Agent,
  type AgentContext,
  type AgentOutcome,
} from './agents/index.ts';
export {
  createEpisodeProcessor,
  type EpisodePorts,
  type LaneParts,
  type PolicyIdentity,
} from './episode/index.ts';
export {
  createGateway,
  probePolicy,
  type Gateway,
  type GatewayOptions,
  type PolicyProbe,
} from './gateway/index.ts';
export { createCommandGrader, GradeError, type Grader } from './grading/index.ts';
export * from './queue/index.ts';
export { createConsumer, type Consumer } from './queue/consumer/index.ts';
export { createControl, startControlListener, type Control } from './queue/control/index.ts';
export { startEmbeddedRedis, type EmbeddedRedis } from './queue/embedded-redis/index.ts';
export { createSandboxProvider, findClaudeCli, type Sandbox, type SandboxProvider } from './sandbox/index.ts';
export {
  buildSequences,
  buildTrace,
  decodePayload,
  decodeTrace,
  encodePayload,
  PayloadError,
  sequenceToJson,
  toResultLine,
} from './trajectory/index.ts';
