import { describe, expect, it } from 'vitest';
import { buildSequences, buildTrace } from '../../src/trajectory/index.ts';
import { call, ids, soundLogprobs } from './call-records.ts';

describe('sequences', () => {
  it('make one sequence of calls that only ever append', () => {
    const { sequences, usage, grades } = buildSequences([
      call(0, [1, 2, 3], [10, 11]),
      call(1, [1, 2, 3, 10, 11, 4, 5], [12]),
      call(2, [1, 2, 3, 10, 11, 4, 5, 12, 6], [13, 14], { finish_reason: 'stop' }),
    ]);
    expect(sequences).toHaveLength(1);
    expect(sequences[0]).toMatchObject({
      role: 'main',
      agent_id: 'main',
      token_ids: ids(1, 2, 3, 10, 11, 4, 5, 12, 6, 13, 14),
      prompt_len: 3,
      loss_mask: Uint8Array.of(0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1),
      certificate: { grade: 'exact', reasons: [], notes: [] },
    });
    const [first, second] = soundLogprobs(2);
    expect([...sequences[0]!.logprobs]).toEqual([0, 0, 0, first, second, 0, 0, first, 0, first, second]);
    expect(sequences[0]!.turns.map(({ start, end, call }) => [start, end, call])).toEqual([
      [3, 5, 0],
      [7, 8, 1],
      [9, 11, 2],
    ]);
    expect(sequences[0]!.turns[2]).toEqual({
      start: 9,
      end: 11,
      call: 2,
      version_start: 3,
      version_end: 3,
      temperature: 1,
      finish_reason: 'stop',
      truncated: false,
    });
    expect(usage).toEqual({ calls: 3, prompt_tokens: 19, completion_tokens: 5, discarded_tokens: 0 });
    expect(grades).toEqual({ exact: 1, forked: 0, untrainable: 0 });
  });

  it('start a new sequence where the history was rewritten, and say so on every chain of that agent', () => {
    const { sequences } = buildSequences([
      call(0, [1, 2], [10]),
      call(1, [1, 2, 10, 3], [11]),
      call(2, [1, 9, 10, 3, 11, 4], [12]),
    ]);
    expect(sequences.map((sequence) => [...sequence.token_ids])).toEqual([
      [1, 2, 10, 3, 11],
      [1, 9, 10, 3, 11, 4, 12],
    ]);
    expect(sequences.map((sequence) => sequence.certificate.grade)).toEqual(['forked', 'forked']);
  });

  it('mask what a second branch shares, so that each sampled token stands once', () => {
    const { sequences } = buildSequences([
      call(0, [1, 2], [10, 11]),
      call(1, [1, 2, 10, 11, 3], [12]),
      call(2, [1, 2, 10, 11, 4], [13]),
    ]);
    expect(sequences.map((sequence) => [...sequence.loss_mask])).toEqual([
      [0, 0, 1, 1, 0, 1],
      [0, 0, 0, 0, 0, 1],
    ]);
    expect(sequences[1]).toMatchObject({ prompt_len: 5, turns: [{ start: 5, end: 6, call: 2 }] });
    expect(sequences[1]!.logprobs.slice(0, 5)).toEqual(new Float32Array(5));
  });

  it('keep several chains alive at once and continue the right one', () => {
    const { sequences } = buildSequences([
      call(0, [1], [10]),
      call(1, [2], [20]),
      call(2, [1, 10, 3], [11]),
      call(3, [2, 20, 3], [21]),
    ]);
    expect(sequences.map((sequence) => sequence.turns.map((turn) => turn.call))).toEqual([
      [0, 2],
      [1, 3],
    ]);
  });

  it('continue the longest record, and the latest of equals', () => {
    const { sequences } = buildSequences([
      call(0, [1], [10]),
      call(1, [1, 10], [11]),
      call(2, [1, 10], [11]),
      call(3, [1, 10, 11, 2], [12]),
    ]);
    expect(sequences.map((sequence) => sequence.turns.map((turn) => turn.call))).toEqual([
      [0, 1],
      [2, 3],
    ]);
  });

  it('keep agents and roles apart: a subagent does not fork the main one', () => {
    const { sequences, grades } = buildSequences([
      call(0, [1, 2], [10]),
      call(1, [5, 6], [50], { agent_id: 'sub-1', role: 'subagent' }),
      call(2, [7], [70], { role: 'auxiliary', notes: ['foreign_client'] }),
      call(3, [1, 2, 10, 3], [11]),
    ]);
    expect(sequences.map(({ role, agent_id, turns }) => [role, agent_id, turns.length])).toEqual([
      ['main', 'main', 2],
      ['subagent', 'sub-1', 1],
      ['auxiliary', 'main', 1],
    ]);
    expect(grades).toEqual({ exact: 3, forked: 0, untrainable: 0 });
    expect(sequences[2]!.certificate.notes).toEqual(['foreign_client']);
  });

  it.each(['undelivered', 'discarded', 'aborted', 'failed'] as const)(
    'count the tokens of a call that was %s and put them in no sequence',
    (fate) => {
      const { sequences, usage } = buildSequences([
        call(0, [1, 2], [10, 11, 12], { fate }),
        call(1, [1, 2], [10, 11]),
        call(2, [1, 2, 10, 11, 3], [13]),
      ]);
      expect(sequences).toHaveLength(1);
      expect(sequences[0]!.certificate.grade).toBe('exact');
      expect(usage).toMatchObject({ calls: 3, completion_tokens: 6, discarded_tokens: 3 });
    },
  );

  it('count what a failed call used when the engine listed no ids', () => {
    const failed = {
      fate: 'aborted',
      token_ids: null,
      logprobs: null,
      usage: { prompt_tokens: 7, completion_tokens: 5 },
    } as const;
    expect(buildSequences([call(0, [], [], failed)]).usage).toEqual({
      calls: 1,
      prompt_tokens: 7,
      completion_tokens: 5,
      discarded_tokens: 5,
    });
  });

  it('keep the turn of a call without token ids as an empty span and go on with the chain', () => {
    const { sequences, usage } = buildSequences([
      call(0, [1, 2], [10]),
      call(1, [1, 2, 10, 3], [], {
        token_ids: null,
        logprobs: null,
        usage: { prompt_tokens: 4, completion_tokens: 6 },
      }),
      call(2, [1, 2, 10, 3, 77, 4], [12]),
    ]);
    expect(sequences).toHaveLength(1);
    expect(sequences[0]!.turns.map(({ start, end }) => [start, end])).toEqual([
      [2, 3],
      [4, 4],
      [6, 7],
    ]);
    expect([...sequences[0]!.loss_mask]).toEqual([0, 0, 1, 0, 0, 0, 1]);
    expect(sequences[0]!.certificate).toMatchObject({
      grade: 'untrainable',
      reasons: ['ids_missing', 'bad_logprob'],
    });
    expect(usage).toMatchObject({ completion_tokens: 8, discarded_tokens: 6 });
  });

  it('put a call without prompt ids into a sequence of its own', () => {
    const { sequences } = buildSequences([
      call(0, [1, 2], [10]),
      call(1, [], [11, 12], { prompt_token_ids: null, usage: { prompt_tokens: 4, completion_tokens: 2 } }),
    ]);
    expect(sequences[1]).toMatchObject({
      token_ids: ids(11, 12),
      prompt_len: 0,
      loss_mask: Uint8Array.of(1, 1),
      certificate: { grade: 'untrainable', reasons: ['prompt_ids_missing'] },
    });
    expect(sequences[0]!.certificate.grade).toBe('forked');
  });

  it('are built for 30 turns of 60 thousand tokens, and for a thousand rewritten histories, in moments', () => {
    const long = Int32Array.from({ length: 60_000 }, (_, index) => (index * 7919) % 150_000);
    const appended = Array.from({ length: 30 }, (_, turn) =>
      call(
        turn,
        long.subarray(0, 2000 * (turn + 1) - 700),
        long.subarray(2000 * (turn + 1) - 700, 2000 * (turn + 1)),
      ),
    );
    const before = performance.now();
    expect(buildSequences(appended).sequences).toHaveLength(1);
    const appendedMs = performance.now() - before;

    const rewritten = Array.from({ length: 1000 }, (_, turn) => {
      const prompt = long.slice(0, 4000 + turn);
      prompt[3000] = 200_000 + turn;
      return call(turn, prompt, [1, 2, 3]);
    });
    const start = performance.now();
    expect(buildSequences(rewritten).sequences).toHaveLength(1000);
    expect(appendedMs).toBeLessThan(1000);
    expect(performance.now() - start).toBeLessThan(5000);
  });
});

describe('the trace', () => {
  it('shows every call in order, whatever became of it', () => {
    const trace = buildTrace([
      call(1, [1, 2, 3], [4], { fate: 'failed', token_ids: null, usage: null, answer: null }),
      call(0, [1], [2]),
    ]);
    expect(
      trace.calls.map(({ call, fate, prompt_tokens, completion_tokens }) => ({
        call,
        fate,
        prompt_tokens,
        completion_tokens,
      })),
    ).toEqual([
      { call: 0, fate: 'delivered', prompt_tokens: 1, completion_tokens: 1 },
      { call: 1, fate: 'failed', prompt_tokens: 3, completion_tokens: null },
    ]);
    expect(trace.calls[0]).toMatchObject({
      new_messages: [{ role: 'user', content: 'message 0' }],
      answer: { role: 'assistant', content: 'answer 0' },
    });
  });
});
