import type { ChatMessage, ToolDefinition } from '../../contracts/index.ts';
import type { ToolResult } from '../../fleet/environment.ts';
import type { ChatAnswer } from '../../gateway/chat.ts';

/**
 * How the policy calls tools: `native` through the engine's tool parser, `text` as `<tool_call>` in what it writes, for
 * engines without one.
 */
export type ToolMode = 'native' | 'text';

/** A tool call as the policy wrote it: it can be made, or `fault` says what is wrong with it. */
export type ReadCall = {
  /** What the result has to be paired with; null where the dialect has no ids. */
  readonly id: string | null;
  /** Empty when the call names no tool. */
  readonly name: string;
} & ({ readonly args: Readonly<Record<string, unknown>> } | { readonly fault: string });

export interface ReadTurn {
  /** In the order in which they are to be made. */
  readonly calls: readonly ReadCall[];
  /** The policy says that it is done, once these calls have been made. */
  readonly done: boolean;
}

export interface Observation {
  readonly call: ReadCall;
  readonly result: ToolResult;
}

/** What differs between the ways of calling tools. Pure: the same answer is always read the same. */
export interface ToolDialect {
  /** Tools the engine is given with every request; null: the system message tells the policy of them. */
  readonly tools: readonly ToolDefinition[] | null;
  /** Part of the system message: how to call tools, and how to end. The same text for the same tools. */
  readonly instructions: string;
  read(answer: ChatAnswer): ReadTurn;
  /** The messages after a turn that did not end the episode: what came of its calls, or that it had none. */
  observe(answer: ChatAnswer, observations: readonly Observation[]): readonly ChatMessage[];
}
