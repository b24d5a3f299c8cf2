import type { ScriptStep } from '../../../src/policy/script-schema.ts';
import {
  parseScripts,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../../src/policy/index.ts';
import type { CallRecord, Sequence } from '../../../src/contracts/index.ts';
import type { GatewaySession } from '../../../src/gateway/session.ts';
import { buildSequences } from '../../../src/trajectory/index.ts';
import { deliveredOf, notAsSampled, turnsOf } from '../support/as-sampled.ts';
import { expect } from 'vitest';

/** A policy that plays `turns` to whoever says "Task". Tokens are split often, so that a text has many spellings. */
export async function policyOf(
  turns: readonly ScriptStep[],
  options: Partial<ScriptedPolicyOptions> = {},
): Promise<ScriptedPolicy> {
  const scripts = parseScripts({ schema: 'rollpool.scripts/1', scripts: [{ match: 'Task', turns }] });
  return startScriptedPolicy({ scripts, seed: 7, model: 'policy', splitRate: 0.2, ...options });
}

export interface Ended {
  readonly records: readonly CallRecord[];
  readonly sequences: readonly Sequence[];
  readonly usage: ReturnType<typeof buildSequences>['usage'];
}

/** Ends the session; every trainable token of what comes out is as the policy's own log has it. */
export async function endOf(session: GatewaySession, policy: ScriptedPolicy): Promise<Ended> {
  const records = await session.finish();
  const { sequences, usage } = buildSequences(records);
  expect(notAsSampled(sequences, policy.samples())).toEqual([]);
  expect(turnsOf(sequences)).toEqual(deliveredOf(records));
  return { records, sequences, usage };
}

/** `role agent: calls, grade` of each sequence. */
export function told(sequences: readonly Sequence[]): string[] {
  return sequences.map(
    ({ role, agent_id, turns, certificate }) =>
      `${role} ${agent_id}: ${turns.map(({ call }) => call).join(' ')}, ${certificate.grade}`,
  );
}
