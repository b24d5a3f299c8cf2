import { setTimeout as delay } from 'node:timers/promises';
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import {
  CallToolRequestSchema,
  ListToolsRequestSchema,
  type CallToolResult,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js';
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv';
import type { LocalTool, LocalToolOutcome } from '../../environment/environment.ts';
import type { FaultSwitch } from '../faults/fault-switch.ts';
import type { Instance } from '../instances/instance.ts';

/** `mcp` is `{root}mcp`, `aggregator` is `{root}api/v1/mcp`. */
export type EndpointName = 'mcp' | 'aggregator';

/** One for all sessions: a session of its own would cost each of them a compiler of schemas, which none needs. */
const jsonSchemaValidator = new AjvJsonSchemaValidator();

/** Only the aggregator drives a screen. */
function toolsOf(instance: Instance, endpoint: EndpointName): readonly LocalTool[] {
  return endpoint === 'aggregator'
    ? instance.tools
    : instance.tools.filter(({ name }) => name !== 'computer');
}

const failed = (text: string): CallToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** A tool's answer as the service's own servers give it: one text, JSON unless it is text already. */
function resultOf(outcome: LocalToolOutcome): CallToolResult {
  if ('error' in outcome) return failed(outcome.error);
  const { value } = outcome;
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  return { content: [{ type: 'text', text }] };
}

/** Calls a tool of an instance; what it throws is a result too. */
export function callTool(
  instance: Instance,
  endpoint: EndpointName,
  name: string,
  args: Readonly<Record<string, unknown>>,
): CallToolResult {
  const known = toolsOf(instance, endpoint).some((tool) => tool.name === name);
  if (!known) return failed(`Unknown tool: ${name}`);
  if (instance.database === null) return failed(`Instance ${instance.id} is not running`);
  try {
    return resultOf(instance.database.callTool(name, args));
  } catch (error) {
    return failed(`Error executing tool ${name}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Resolves when the signal aborts. */
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** The MCP server of one session: an instance's tools at one of its endpoints. */
export function createToolServer(instance: Instance, endpoint: EndpointName, faults: FaultSwitch): Server {
  const { environment, plan, id } = instance;
  const server = new Server(
    { name: environment.env_key, version: environment.version },
    { capabilities: { tools: {} }, jsonSchemaValidator },
  );
  const occasion = { instance: id, run_id: plan.run_id };
  server.setRequestHandler(ListToolsRequestSchema, () => {
    if (faults.take('tools_late', occasion) !== undefined) return { tools: [] };
    return { tools: toolsOf(instance, endpoint) as unknown as Tool[] };
  });
  server.setRequestHandler(CallToolRequestSchema, async ({ params }, { signal }) => {
    const call = { ...occasion, tool: params.name };
    // Closing the session aborts the signal, and an instance that ends closes its sessions.
    if (faults.take('tool_hang', call) !== undefined) await aborted(signal);
    const slow = faults.take('tool_slow', call);
    if (slow !== undefined) await delay(slow.ms, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return failed('the call was given up');
    return callTool(instance, endpoint, params.name, params.arguments ?? {});
  });
  return server;
}
