import { join, posix } from 'node:path';
import type { FileContent, ImageBuild } from '../../../src/contracts/index.ts';
import { megabytes, type HarborConfig } from './config.ts';
import { envInstructions, readDockerfile, type DockerfileFacts } from './dockerfile.ts';
import { networkOf } from './network-of.ts';
import type { Notes } from './notes.ts';
import { takeFiles, type Budget, type TakenFiles } from './taken-files.ts';
import { contextFiles, contextRules, parts } from './task-files.ts';
import { variablesOf } from './variables.ts';

/** Where the agent works in an image that says nothing about it, as in the images of most tasks. */
export const usualWorkdir = '/app';

const systemDirectories = [
  ...['/bin', '/boot', '/dev', '/etc', '/lib', '/lib32', '/lib64', '/proc', '/run', '/sbin', '/sys', '/usr'],
  ...['/logs', '/tests'],
];
/** Nothing below these can be the agent's either. */
const systemTrees = /^\/(dev|proc|sys|logs|tests)\//;

/** What a task says about its sandbox, as our tasks say it; and what goes into the working directory beside. */
export interface TaskSandbox {
  readonly sandbox: Record<string, unknown> & { readonly workdir: string };
  /** Of an image that is not built here, the files of environment/. */
  readonly files: TakenFiles;
}

function noteUnsupported({ environment }: HarborConfig, notes: Notes): void {
  const { os, gpus = 0, tpu, mcp_servers = [], healthcheck, skills_dir } = environment;
  const fault = (field: string, reason: string): void =>
    notes.fault(parts.config, `environment.${field}`, reason);
  if (os !== undefined && os.toLowerCase() !== 'linux')
    fault('os', `is ${JSON.stringify(os)}: sandboxes are Linux`);
  if (gpus > 0) fault('gpus', `is ${gpus}: sandboxes have no GPU`);
  if (tpu !== undefined) fault('tpu', 'sandboxes have no TPU');
  if (mcp_servers.length > 0) fault('mcp_servers', 'the agent is given no MCP servers');
  if (healthcheck !== undefined) {
    fault(
      'healthcheck',
      'waits for a service of the image, and nothing of the image is started in a sandbox',
    );
  }
  if (skills_dir !== undefined && skills_dir !== '') {
    notes.warn(parts.config, 'environment.skills_dir', 'the agent is not given these skills');
  }
}

function workdirOf(config: HarborConfig, facts: DockerfileFacts | null, notes: Notes): string {
  const given = config.environment.workdir;
  const file = given === undefined ? `${parts.environment}/Dockerfile` : parts.config;
  const field = given === undefined ? 'WORKDIR' : 'environment.workdir';
  if (given !== undefined && !given.startsWith('/')) {
    notes.fault(file, field, `${JSON.stringify(given)} is no absolute path`);
    return usualWorkdir;
  }
  const workdir = given === undefined ? (facts?.workdir ?? null) : posix.resolve(given);
  if (given === undefined && facts !== null && facts.unknown.length > 0) {
    const names = facts.unknown.map((name) => `$${name}`).join(', ');
    notes.warn(
      file,
      field,
      `${names} has no value in this file: taken as ${workdir}; environment.workdir can say it`,
    );
  }
  if (workdir === null || workdir === '/') {
    const why = workdir === null ? 'is not known from the task' : 'is /, which cannot be given to the agent';
    notes.warn(file, field, `${why}: ${usualWorkdir} is taken; environment.workdir can say another`);
    return usualWorkdir;
  }
  if (systemDirectories.includes(workdir) || systemTrees.test(workdir)) {
    notes.fault(file, field, `is ${workdir}, a directory of the system, which cannot be given to the agent`);
  }
  return workdir;
}

function sizes({ environment }: HarborConfig, notes: Notes): Record<string, number> {
  const { cpus, memory, storage } = environment;
  const sized: Record<string, number> = cpus === undefined ? {} : { cpus };
  for (const [name, old, least, ours] of [
    ['memory', memory, 64, 'memory_mb'],
    ['storage', storage, 16, 'disk_mb'],
  ] as const) {
    const stated = environment[`${name}_mb`];
    const older = old === undefined ? undefined : megabytes(old);
    if (stated !== undefined && older !== undefined && stated !== older) {
      notes.fault(parts.config, `environment.${name}`, `is ${old}, and environment.${name}_mb is ${stated}`);
    }
    const value = stated ?? older;
    if (value === undefined) continue;
    if (value < least) notes.fault(parts.config, `environment.${name}_mb`, `must be at least ${least}`);
    else sized[ours] = value;
  }
  return sized;
}

function dockerfileOf(taken: TakenFiles, notes: Notes): string | null {
  const file = taken.files['Dockerfile'];
  if (file === undefined || typeof file === 'string') return file ?? null;
  notes.fault(`${parts.environment}/Dockerfile`, '', 'is not UTF-8 text');
  return null;
}

/**
 * Reads what a task's sandbox is made of. An image that is named is taken before one that is built, as Harbor does. The
 * variables of environment.env are put into the image, since there they hold for every command.
 */
export async function sandboxOf(
  directory: string,
  config: HarborConfig,
  compose: boolean,
  budget: Budget,
  notes: Notes,
): Promise<TaskSandbox> {
  noteUnsupported(config, notes);
  if (compose) {
    notes.fault(parts.compose, '', 'a task of several containers cannot be run: a sandbox is one container');
  }
  const { docker_image, build_timeout_sec } = config.environment;
  const image = docker_image === undefined || docker_image === '' ? null : docker_image;
  const env = variablesOf(config.environment.env, 'environment.env', notes);
  const network = networkOf(config, notes);
  for (const line of (await contextRules(directory)).wrong) {
    notes.warn(
      join(parts.environment, '.dockerignore'),
      '',
      `${JSON.stringify(line)} is no pattern; left aside`,
    );
  }
  const taken = await takeFiles(contextFiles(directory), parts.environment, budget, notes);
  const dockerfile = dockerfileOf(taken, notes);
  const facts = dockerfile === null ? null : readDockerfile(dockerfile);
  if (image === null && !compose) noteDockerfile(taken, facts, notes);
  if (facts !== null && facts.entrypoint !== null) {
    notes.warn(
      `${parts.environment}/Dockerfile`,
      'ENTRYPOINT',
      'is not run: what it would start is not there, and its environment neither',
    );
  }

  const none: TakenFiles = { files: {}, executable: [] };
  const build = (
    files: Record<string, FileContent>,
    text: string,
    executable: readonly string[],
  ): ImageBuild => ({
    files: { ...files, Dockerfile: withEnv(text, env, facts?.escape ?? '\\') },
    ...(executable.length === 0 ? {} : { executable: [...executable] }),
    ...(build_timeout_sec === undefined ? {} : { seconds: build_timeout_sec }),
  });
  const made =
    image === null
      ? { build: build(taken.files, dockerfile ?? '', taken.executable) }
      : Object.keys(env).length === 0
        ? { image }
        : { build: build({}, `FROM ${image}\n`, []) };
  return {
    sandbox: { ...made, ...sizes(config, notes), network, workdir: workdirOf(config, facts, notes) },
    // Harbor puts them there for an image that has no Dockerfile beside it.
    files: image !== null && dockerfile === null && !compose ? taken : none,
  };
}

function withEnv(text: string, env: Readonly<Record<string, string>>, escape: string): string {
  const added = envInstructions(env, escape);
  return added === '' ? text : `${text}${text.endsWith('\n') ? '' : '\n'}${added}`;
}

function noteDockerfile(taken: TakenFiles, facts: DockerfileFacts | null, notes: Notes): void {
  const file = `${parts.environment}/Dockerfile`;
  if (taken.files['Dockerfile'] === undefined) {
    // One that was found and could not be taken has been told.
    if (!notes.faults.some((fault) => fault.file?.endsWith(file))) {
      notes.fault(file, '', 'there is no such file, and task.toml has no environment.docker_image');
    }
  } else if (facts !== null && facts.from === null) notes.fault(file, '', 'has no FROM');
}
