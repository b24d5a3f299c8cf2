import { lstat, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { FoundTask } from './find-tasks.ts';
import { readConfig, type HarborConfig } from './config.ts';
import { Notes } from './notes.ts';
import { sandboxOf } from './sandbox-of.ts';
import { text, type Budget } from './taken-files.ts';
import { largestTask, parts } from './task-files.ts';
import { shellQuoted } from './variables.ts';
import { usualVerifySeconds, verifyOf } from './verify-of.ts';

/** A task directory, read: a task as our files have it, or why there is none. */
export interface HarborTask {
  readonly key: string;
  /** Where the key is from. */
  readonly keyField: string;
  /** Only without faults is it a task. */
  readonly value: Readonly<Record<string, unknown>>;
  readonly notes: Notes;
}

const largestText = 2 ** 20;

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch {
    return false;
  }
}

/** A text file of a task; null where a fault was noted. */
async function textFile(directory: string, name: string, notes: Notes): Promise<string | null> {
  try {
    await using file = await open(join(directory, name), 'r');
    const found = await file.stat();
    if (!found.isFile()) notes.fault(name, '', 'is not a regular file');
    else if (found.size > largestText)
      notes.fault(name, '', `has ${found.size} bytes, and may have ${largestText}`);
    else {
      const read = text(await file.readFile());
      if (read !== null) return read.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
      notes.fault(name, '', 'is not UTF-8 text');
    }
  } catch (fault) {
    const { code, message } = fault as NodeJS.ErrnoException;
    const known: Record<string, string> = { ENOENT: 'there is no such file', EACCES: 'may not be read' };
    notes.fault(name, '', known[code ?? ''] ?? `cannot be read: ${message}`);
  }
  return null;
}

const canary = /^\s*(<!--.*canary.*-->|#.*canary.*)\s*$/i;

/** An instruction without the marks at its beginning that keep a benchmark out of training data: Harbor shows no agent them. */
function withoutCanary(instruction: string): string {
  const lines = instruction.split('\n');
  const first = lines.findIndex((line) => !canary.test(line));
  return (first === -1 ? [] : lines.slice(first)).join('\n').replace(/^(\s*\n)+/, '');
}

/** A value of TOML as JSON has it: dates as text, numbers that JSON has none of too. */
function plain(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, plain(item)]));
}

function metadataOf(config: HarborConfig, directory: string): Record<string, unknown> {
  const { task, metadata, source } = config;
  return {
    directory,
    ...Object.fromEntries(
      Object.entries({ schema_version: config.schema_version ?? config.version, task, metadata, source })
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, plain(value)]),
    ),
  };
}

function noteUnsupported(config: HarborConfig, notes: Notes): void {
  if ((config.steps ?? []).length > 0) {
    notes.fault(parts.config, 'steps', 'a task of several steps cannot be run');
  }
  const { user } = config.agent;
  if (user !== undefined) {
    notes.warn(
      parts.config,
      'agent.user',
      `is ${user}; the agent runs as a user of its own without privileges`,
    );
  }
}

/** Reads one Harbor task directory, whole. The same files give the same value, whatever their order or age. */
export async function readHarborTask({ path, name }: FoundTask): Promise<HarborTask> {
  const notes = new Notes(path);
  const found = { key: name, keyField: '', value: {}, notes };
  if (!(await exists(join(path, parts.config))) && (await exists(join(path, 'task.yaml')))) {
    notes.fault('task.yaml', '', "is of the first Terminal-Bench format; Harbor's has a task.toml instead");
    return found;
  }
  const toml = await textFile(path, parts.config, notes);
  const config = toml === null ? null : readConfig(toml, notes);
  if (config === null) return found;
  noteUnsupported(config, notes);
  const several = (config.steps ?? []).length > 0;
  const instruction = several ? null : await textFile(path, parts.instruction, notes);
  const prompt = withoutCanary(instruction ?? '');
  if (instruction !== null && prompt.trim() === '') notes.fault(parts.instruction, '', 'is empty');
  if (await exists(join(path, parts.trajectory))) {
    notes.fault(parts.trajectory, '', 'the agent cannot be given what it did before');
  }
  const budget: Budget = { left: largestTask, exceeded: false };
  const compose = await exists(join(path, parts.compose));
  const { sandbox, files } = await sandboxOf(path, config, compose, budget, notes);
  // The tests of several steps are elsewhere, and that there are several is said.
  const verify = several ? {} : await verifyOf(path, config, sandbox.workdir, budget, notes);
  const graded = config.verifier.timeout_sec ?? usualVerifySeconds;
  const key = config.task?.name;
  return {
    key: key ?? name,
    keyField: key === undefined ? '' : 'task.name',
    notes,
    value: {
      task_key: key ?? name,
      kind: 'claude_code',
      prompt,
      sandbox,
      files: files.files,
      setup: [
        // Instructions may ask the agent to leave something there.
        'mkdir -p /logs/agent /logs/artifacts && chmod 777 /logs/agent /logs/artifacts',
        ...(files.executable.length === 0
          ? []
          : [`chmod +x -- ${files.executable.map((path) => shellQuoted(`./${path}`)).join(' ')}`]),
      ],
      verify,
      limits: {
        ...(config.agent.timeout_sec === undefined ? {} : { agent_seconds: config.agent.timeout_sec }),
        grade_seconds: graded,
        grade_total_seconds: graded,
      },
      metadata: { harbor: metadataOf(config, name) },
    },
  };
}
