import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ClaudeCodeTask, Files } from '../../src/contracts/index.ts';
import type { ScriptedPolicy } from '../../src/policy/index.ts';
import { post, tools } from './support.ts';

async function put(directory: string, files: Files): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    const path = join(directory, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, typeof content === 'string' ? content : Buffer.from(content.base64, 'base64'));
  }
}

function bash(command: string, cwd: string): Promise<{ ok: boolean; output: string }> {
  return new Promise((resolve) => {
    execFile('bash', ['-c', command], { cwd, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ ok: error === null, output: `${stdout}${stderr}` }),
    );
  });
}

interface Input {
  command?: string;
  file_path?: string;
  content?: string;
  old_string?: string;
  new_string?: string;
}

/** What the command line's tools do, as far as the examples go. */
async function act(name: string, input: Input, directory: string): Promise<string> {
  const path = input.file_path ?? '';
  if (path !== '' && !path.startsWith(`${directory}/`)) throw new Error(`${path} is not below ${directory}`);
  if (name === 'Bash') return (await bash(input.command ?? '', directory)).output;
  if (name === 'Read') return readFile(path, 'utf8');
  if (name === 'Write') return writeFile(path, input.content ?? '').then(() => 'written');
  if (name === 'Edit') {
    const text = await readFile(path, 'utf8');
    const parts = text.split(input.old_string ?? '');
    if (parts.length !== 2) return 'String to replace not found in file.';
    await writeFile(path, parts.join(input.new_string ?? ''));
    return 'edited';
  }
  if (name === 'Glob' || name === 'Grep') return 'No matches found';
  throw new Error(`no tool ${name}`);
}

export interface Played {
  readonly reward: number;
  readonly turns: number;
  /** Names of the tools called, in order. */
  readonly called: readonly string[];
  /** Whether every prompt began with all ids before it. */
  readonly exact: boolean;
}

/** Plays a task against a policy with a bare loop in a temporary directory, and grades it. */
export async function play(policy: ScriptedPolicy, task: ClaudeCodeTask): Promise<Played> {
  const directory = await mkdtemp(join(tmpdir(), `rollpool-example-${process.pid}-`));
  try {
    await put(directory, task.files);
    for (const command of task.setup) {
      if (!(await bash(command, directory)).ok) throw new Error(`setup failed: ${command}`);
    }
    const messages: Record<string, unknown>[] = [
      { role: 'user', content: task.prompt },
      { role: 'system', content: `# Environment\n - Primary working directory: ${directory}` },
    ];
    const called: string[] = [];
    let before: number[] = [];
    let exact = true;
    let turns = 0;
    for (;;) {
      const { body } = await post(policy, { messages, tools, logprobs: true, return_token_ids: true });
      turns += 1;
      const prompt: number[] = body.prompt_token_ids;
      exact &&= before.every((id, at) => id === prompt[at]);
      before = [...prompt, ...body.choices[0].token_ids];
      const { message, finish_reason: finish } = body.choices[0];
      messages.push(message);
      if (finish !== 'tool_calls' || turns >= (task.limits.max_turns ?? 30)) break;
      for (const call of message.tool_calls) {
        called.push(call.function.name);
        const content = await act(call.function.name, JSON.parse(call.function.arguments), directory);
        messages.push({ role: 'tool', tool_call_id: call.id, content });
      }
    }
    await put(directory, task.verify.files);
    let passed = 0;
    for (const command of task.verify.commands) if ((await bash(command, directory)).ok) passed += 1;
    const share = passed / task.verify.commands.length;
    return { reward: task.verify.reward === 'all' ? Math.floor(share) : share, turns, called, exact };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
