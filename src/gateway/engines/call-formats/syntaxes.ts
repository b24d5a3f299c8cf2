import type { CallFormat } from './call-format.ts';
import type { CallSyntax } from './call-syntax.ts';
import { deepseekV3, deepseekV31 } from './deepseek.ts';
import { glm45 } from './glm45.ts';
import { hermes } from './hermes.ts';
import { kimiK2 } from './kimi-k2.ts';
import { llama3Json } from './llama3-json.ts';
import { mistral } from './mistral.ts';
import { qwen3Coder } from './qwen3-coder.ts';

export const syntaxes: Readonly<Record<CallFormat, CallSyntax>> = {
  hermes,
  qwen3_coder: qwen3Coder,
  llama3_json: llama3Json,
  mistral,
  glm45,
  kimi_k2: kimiK2,
  deepseek_v3: deepseekV3,
  deepseek_v31: deepseekV31,
};
