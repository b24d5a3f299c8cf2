export { createGateway, type Gateway, type GatewayOptions } from './gateway.ts';
export * from './chat.ts';
export * from './policy-state.ts';
export * from './recorder/index.ts';
export * from './session.ts';
export { PolicyUnusableError, probePolicy, type PolicyProbe } from './probe.ts';
