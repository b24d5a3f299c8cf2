import {
  parseScripts,
  startScriptedPolicy,
  type ScriptedPolicy,
  type ScriptedPolicyOptions,
} from '../../src/policy/index.ts';

export const tools = [{ type: 'function', function: { name: 'Bash', parameters: { type: 'object' } } }];
export const ask = [{ role: 'user', content: 'Task A' }];

export const turns = [
  {
    thinking: 'Look first.',
    text: 'Let me see.',
    tool_calls: [
      { name: 'Bash', arguments: { command: 'ls' } },
      { name: 'Bash', arguments: '{"command":"pwd"' },
    ],
  },
  { text: 'Everything is done.' },
];

export async function policyWith(
  script: unknown,
  options: Partial<ScriptedPolicyOptions> = {},
): Promise<ScriptedPolicy> {
  const scripts = parseScripts({
    schema: 'rollpool.scripts/1',
    scripts: [{ match: 'Task A', turns: script }],
  });
  return startScriptedPolicy({ scripts, seed: 5, ...options });
}

export interface Reply {
  status: number;
  // Bodies are looked at field by field.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  body: any;
  headers: Headers;
}

export async function post(
  policy: ScriptedPolicy,
  body: Record<string, unknown>,
  path = '/v1/chat/completions',
): Promise<Reply> {
  const response = await fetch(policy.url + path, { method: 'POST', body: JSON.stringify(body) });
  return { status: response.status, body: await response.json(), headers: response.headers };
}

/** The chunks of a streamed answer, and whether `[DONE]` came. */
export async function stream(
  policy: ScriptedPolicy,
  body: Record<string, unknown>,
  path = '/v1/chat/completions',
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
): Promise<{ chunks: any[]; done: boolean }> {
  const response = await fetch(policy.url + path, {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
  });
  const events = (await response.text())
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.slice('data: '.length));
  const done = events.at(-1) === '[DONE]';
  return { done, chunks: (done ? events.slice(0, -1) : events).map((event) => JSON.parse(event)) };
}
