import { posix } from 'node:path';
import type { HarborConfig } from './config.ts';
import type { Notes } from './notes.ts';
import { takeFiles, type Budget, type TakenFiles } from './taken-files.ts';
import { harborIgnore, parts, testFiles } from './task-files.ts';
import { shellQuoted, variablesOf } from './variables.ts';

/** Where the tests of a task are in its sandbox. Source: Harbor's task format. */
const testsDirectory = '/tests';
const script = 'test.sh';

/**
 * Tests often end with the exit code of the program they try: one that the agent did not write is not found (126, 127),
 * which is no fault of the tests. What they wrote as the reward says it all.
 */
const endOfTests = 'exit $(($? == 126 || $? == 127 ? 1 : $?))';

/** Harbor's default for verifier.timeout_sec. */
export const usualVerifySeconds = 600;

function noteUnsupported({ verifier }: HarborConfig, notes: Notes): void {
  if ((verifier.collect ?? []).length > 0) {
    notes.fault(parts.config, 'verifier.collect', 'commands between the agent and the tests are not run');
  }
  const { user } = verifier;
  if (user !== undefined && user !== 'root' && user !== 0 && user !== '0') {
    notes.warn(parts.config, 'verifier.user', `is ${user}; the tests run as root`);
  }
}

/** The paths in `artifacts`, relative to the working directory: what a fresh sandbox for the tests is given. */
function artifactsOf(config: HarborConfig, workdir: string, notes: Notes): string[] {
  const taken: string[] = [];
  for (const [index, artifact] of (config.artifacts ?? []).entries()) {
    const { source, service, exclude = [] } = typeof artifact === 'string' ? { source: artifact } : artifact;
    const field = `artifacts.${index}`;
    if (service !== undefined && service !== 'main') {
      notes.fault(parts.config, field, `is of the container ${service}, and a sandbox is one container`);
      continue;
    }
    if (exclude.length > 0) notes.warn(parts.config, field, 'is taken whole: exclude is not looked at');
    const path = posix.relative(workdir, posix.resolve(workdir, source));
    if (path === '..' || path.startsWith('../')) {
      notes.fault(parts.config, field, `is ${source}: only what is in ${workdir} reaches a fresh sandbox`);
    } else taken.push(path === '' ? '.' : path);
  }
  return [...new Set(taken)];
}

/** Where the tests run, and with what of the agent's sandbox. */
function placeOf(
  config: HarborConfig,
  workdir: string,
  tests: TakenFiles,
  notes: Notes,
): { readonly sandbox?: 'fresh'; readonly artifacts?: string[] } {
  const { verifier, artifacts = [] } = config;
  const own = verifier.environment !== undefined;
  if (!own && verifier.environment_mode !== 'separate') {
    if (artifacts.length > 0) notes.warn(parts.config, 'artifacts', 'are not kept');
    return {};
  }
  if (own) {
    notes.fault(
      parts.config,
      'verifier.environment',
      'the tests run in a sandbox of the same image as the agent',
    );
  }
  if (tests.files['Dockerfile'] !== undefined || tests.files['docker-compose.yaml'] !== undefined) {
    notes.fault(
      `${parts.tests}/${tests.files['Dockerfile'] === undefined ? 'docker-compose.yaml' : 'Dockerfile'}`,
      '',
      'the tests run in a sandbox of the same image as the agent',
    );
  }
  const taken = artifactsOf(config, workdir, notes);
  if (taken.length === 0 && !own) {
    notes.fault(
      parts.config,
      'artifacts',
      `names nothing in ${workdir}: tests in a fresh sandbox would see nothing of what the agent did`,
    );
  }
  return { sandbox: 'fresh', artifacts: taken };
}

/** Reads how a task is graded: its tests under /tests, run as root in the working directory, as Harbor does. */
export async function verifyOf(
  directory: string,
  config: HarborConfig,
  workdir: string,
  budget: Budget,
  notes: Notes,
): Promise<Record<string, unknown>> {
  noteUnsupported(config, notes);
  const tests = await takeFiles(testFiles(directory), parts.tests, budget, notes);
  const place = placeOf(config, workdir, tests, notes);
  noteScript(tests, notes);
  if (await hasIgnoreRules(directory)) {
    notes.warn(`${parts.tests}/${harborIgnore}`, '', 'is not looked at: all files of tests/ are taken');
  }
  const env = Object.entries(variablesOf(config.verifier.env, 'verifier.env', notes));
  const runnable = [...new Set([script, ...tests.executable])]
    .sort()
    .map((path) => `${testsDirectory}/${path}`);
  const set = env.map(([name, value]) => `${name}=${shellQuoted(value)} `).join('');
  return {
    files: tests.files,
    dir: testsDirectory,
    user: 'root',
    ...place,
    // Run by what its first line names, as Harbor does, or by this shell where that names nothing.
    commands: [
      `chmod +x ${runnable.map(shellQuoted).join(' ')} && ${set}${testsDirectory}/${script} || ${endOfTests}`,
    ],
    reward: 'harbor',
  };
}

function noteScript(tests: TakenFiles, notes: Notes): void {
  const place = `${parts.tests}/${script}`;
  const text = tests.files[script];
  if (text === undefined) {
    if (notes.faults.some((fault) => fault.file?.endsWith(place))) return;
    const windows = tests.files['test.bat'] === undefined ? '' : '; test.bat is for Windows';
    notes.fault(place, '', `there is no such file${windows}`);
  } else if (typeof text === 'string' && /^[^\n]*\r\n/.test(text)) {
    notes.fault(place, '', 'has Windows line ends, which no shell reads');
  }
}

async function hasIgnoreRules(directory: string): Promise<boolean> {
  for await (const file of testFiles(directory, true)) {
    if (!('reason' in file) && file.path.split('/').at(-1) === harborIgnore && file.size > 0) return true;
  }
  return false;
}
