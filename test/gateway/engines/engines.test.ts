import type { Engine } from '../../../src/gateway/engines/engine.ts';
import { SglangEngine } from '../../../src/gateway/engines/sglang.ts';
import { VllmEngine } from '../../../src/gateway/engines/vllm.ts';
import { engineContract } from './contract.ts';
import {
  sglangChat,
  sglangChatMeta,
  sglangGenerate,
  vllmCompletions,
  vllmStreamed,
  vllmUnary,
} from './support/mouths.ts';

const model = { model: 'policy' };

/** An engine whose every call goes on from these prompt ids. */
function fromIds(engine: Engine, ids: readonly number[]): Engine {
  return {
    name: engine.name,
    model: engine.model,
    logprobsMode: engine.logprobsMode,
    continuesFromIds: engine.continuesFromIds,
    countTokens: engine.countTokens.bind(engine),
    render: engine.render.bind(engine),
    reread: engine.reread.bind(engine),
    complete: (replica, request, signal) =>
      engine.complete(replica, { ...request, prompt_token_ids: Int32Array.from(ids) }, signal),
  };
}

engineContract({ name: 'vLLM, whole answers', mouth: vllmUnary, engine: () => new VllmEngine(model) });
engineContract({
  name: 'vLLM, streamed',
  mouth: vllmStreamed,
  engine: () => new VllmEngine({ ...model, streaming: true }),
  streams: true,
});
engineContract({
  name: 'vLLM behind a router that streams unasked',
  mouth: vllmStreamed,
  engine: () => new VllmEngine(model),
});
engineContract({
  name: 'SGLang chat',
  mouth: sglangChat,
  engine: () => new SglangEngine(model),
  abortsById: true,
});
engineContract({
  name: 'SGLang chat, ids in meta_info only',
  mouth: sglangChatMeta,
  pairs: true,
  engine: () => new SglangEngine(model),
  abortsById: true,
});
engineContract({
  name: 'SGLang /generate',
  mouth: sglangGenerate,
  engine: () => fromIds(new SglangEngine({ ...model, callFormat: 'hermes' }), [1, 2, 3, 4, 5]),
  givesIds: true,
  abortsById: true,
});
engineContract({
  name: 'vLLM /v1/completions',
  mouth: vllmCompletions,
  engine: () => fromIds(new VllmEngine({ ...model, callFormat: 'hermes' }), [1, 2, 3, 4, 5]),
  givesIds: true,
});
