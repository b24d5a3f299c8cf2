import { describe, expect, it } from 'vitest';
import {
  agentDone,
  createAgent,
  createInProcessAgent,
  createStartGate,
  type AgentContext,
} from '../../src/agents/index.ts';

const context = (signal: AbortSignal): AgentContext => ({ signal }) as AgentContext;

describe('an in-process agent', () => {
  it('ends as its function says', async () => {
    const agent = createInProcessAgent(async () => agentDone('42', { steps: 1 }));
    await expect(agent.run(context(new AbortController().signal))).resolves.toEqual({
      ending: 'agent_done',
      exit_code: null,
      detail: '',
      final_answer: '42',
      metrics: { steps: 1 },
    });
  });

  it('is left with the signal’s reason, also when its function does not listen', async () => {
    const controller = new AbortController();
    const agent = createInProcessAgent(() => new Promise(() => {}));
    const running = agent.run(context(controller.signal));
    const reason = new Error('deadline');
    controller.abort(reason);
    await expect(running).rejects.toBe(reason);
    await expect(agent.run(context(controller.signal))).rejects.toBe(reason);
  });
});

describe('the registry of agents', () => {
  it('knows who acts for a kind of task', () => {
    const parts = { startGate: createStartGate(1), toolMode: 'native' as const };
    expect(createAgent('claude_code', parts).name).toBe('claude-code');
    expect(createAgent('fleet', parts).name).toBe('tool-loop');
  });
});
