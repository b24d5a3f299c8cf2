import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Grader } from '../../../src/grading/grader.ts';
import { createCommandGrader } from '../../../src/grading/index.ts';
import type { Sandbox, SandboxProviderName } from '../../../src/sandbox/index.ts';
import { grade, taskOf, type GradeInput, type GradeMore } from '../grade.ts';
import { openSandbox } from '../open-sandbox.ts';

/** A task as far as its sandbox goes. */
export type Parts = NonNullable<GradeMore['task_parts']>;

/** A sandbox that attack after attack is tried in, as an episode would: the agent acts, then it is graded. */
export interface Arena extends AsyncDisposable {
  readonly sandbox: Sandbox;
  /** Empties the working directory and puts a task's files there. */
  reset(parts?: Parts): Promise<void>;
  /** Lets the agent act, and grades with fresh sandboxes at hand. */
  attack(agent: string, verify: GradeInput, more?: GradeMore): ReturnType<typeof grade>;
  /** Fresh sandboxes that were made. */
  fresh(): number;
}

async function prepare(sandbox: Sandbox, parts: Parts): Promise<void> {
  if (parts.files !== undefined) await sandbox.upload(parts.files, { owner: 'agent' });
  for (const command of parts.setup ?? []) await sandbox.exec(command, { timeout_ms: 60_000 });
  await sandbox.giveWorkdir('agent');
}

export async function openArena(
  provider: SandboxProviderName = 'docker',
  image: (sandbox: Sandbox) => Promise<void> = async () => {},
): Promise<Arena> {
  const open = async (): ReturnType<typeof openSandbox> => {
    const one = await openSandbox(provider);
    await image(one.sandbox);
    return one;
  };
  let opened = await open();
  const grader: Grader = createCommandGrader();
  let made = 0;
  const arena: Arena = {
    get sandbox() {
      return opened.sandbox;
    },
    fresh: () => made,
    reset: async (parts = {}) => {
      // A grading that went on in a fresh one has ended it.
      if ((await opened.sandbox.state()) === 'gone') {
        await opened[Symbol.asyncDispose]();
        opened = await open();
      }
      const { sandbox } = opened;
      await sandbox.killAgent(30_000);
      const script = 'chmod -R u+rwX . ; find . -mindepth 1 -delete; find "$0" /tmp -mindepth 1 -delete';
      await sandbox.giveWorkdir('agent');
      await sandbox.exec(['bash', '-c', script, sandbox.agent_home], { timeout_ms: 60_000 });
      await prepare(sandbox, parts);
    },
    attack: async (agent, verify, more = {}) => {
      const parts = more.task_parts ?? {};
      const { sandbox } = opened;
      const before = await grader.look?.(taskOf(verify, parts), sandbox, new AbortController().signal);
      const agent_started_at = Date.now();
      const acted = await sandbox.exec(agent, { user: 'agent', timeout_ms: 60_000 });
      if (acted.exit_code !== 0) throw new Error(`the attack itself failed: ${acted.stderr}`);
      const left: AsyncDisposable[] = [];
      try {
        return await grade(sandbox, verify, {
          grader,
          agent_started_at,
          before: before ?? null,
          freshSandbox: async () => {
            const another = await open();
            left.push(another);
            made += 1;
            await prepare(another.sandbox, parts);
            return another.sandbox;
          },
          ...more,
        });
      } finally {
        for (const one of left) await one[Symbol.asyncDispose]();
      }
    },
    [Symbol.asyncDispose]: async () => opened[Symbol.asyncDispose](),
  };
  return arena;
}

/** Where the packages of the pytest of this machine are, by the Python that runs it; null: there is none. */
function pytestHome(): string | null {
  const find = 'import pytest, os; print(os.path.dirname(os.path.dirname(pytest.__file__)))';
  for (const python of ['.venv/bin/python', 'python3']) {
    try {
      return execFileSync(python, ['-c', find], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).trim();
    } catch {
      // The next one may have it.
    }
  }
  return null;
}

const home = pytestHome();
if (home === null) console.warn('skipped: attacks on pytest: no Python here has it');
export const havePytest = home !== null;

/** Puts pytest into a sandbox, as an image with it would have it. */
export async function installPytest(sandbox: Sandbox): Promise<void> {
  if (home === null) throw new Error('no pytest');
  const files: Record<string, Uint8Array> = { 'py.py': readFileSync(join(home, 'py.py')) };
  const wanted = /\.py$/;
  // Of the colours only what is imported whatever the output is.
  const colours = /^pygments\/(?!lexers\/(?!(__init__|_mapping|diff|python)\.py))/;
  for (const name of ['pytest', '_pytest', 'pluggy', 'iniconfig', 'packaging', 'pygments']) {
    for (const entry of readdirSync(join(home, name), { recursive: true, withFileTypes: true })) {
      const path = relative(home, join(entry.parentPath, entry.name));
      if (!entry.isFile() || !wanted.test(path)) continue;
      if (name === 'pygments' && !colours.test(path)) continue;
      files[path] = readFileSync(join(home, path));
    }
  }
  const base = '/usr/lib/python3/dist-packages';
  await sandbox.upload(files, { base, owner: 'root' });
  await sandbox.exec(['python3', '-m', 'compileall', '-q', base], { timeout_ms: 60_000 });
}
