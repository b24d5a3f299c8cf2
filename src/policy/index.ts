export type { CallFormat, TemplateName } from './chat-template.ts';
export type { FaultInput } from './faults.ts';
export type { SampledCall } from './sample-log.ts';
export { loadScripts, parseScripts, ScriptFileError } from './script-file.ts';
export type { Script } from './script-schema.ts';
export {
  PolicyStartError,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from './scripted-policy.ts';
export { decodeTokens } from './tokenizer.ts';
