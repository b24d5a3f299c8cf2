import type { Engine } from './engine.ts';
import { SglangEngine } from './sglang.ts';
import { VllmEngine, type VllmOptions } from './vllm.ts';

export type EngineKind = 'vllm' | 'sglang' | 'unknown';

/** The engine a probe found. One it did not know is spoken to as vLLM; SGLang never streams, because it has no ids then. */
export function createEngine(kind: EngineKind, options: VllmOptions): Engine {
  return kind === 'sglang' ? new SglangEngine(options) : new VllmEngine(options);
}
