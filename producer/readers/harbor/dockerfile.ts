import { posix } from 'node:path';
import { dockerfileText, expand, type Lookup } from './dockerfile-words.ts';

/** What a Dockerfile says about the image of its last stage. */
export interface DockerfileFacts {
  readonly escape: string;
  /** null: it has no FROM, so it is none. */
  readonly from: string | null;
  /** The last WORKDIR, absolute; null where only the image it begins with may have one. */
  readonly workdir: string | null;
  /** Variables in a WORKDIR that this file gives no value. */
  readonly unknown: readonly string[];
  readonly entrypoint: string | null;
}

interface Stage {
  readonly from: string;
  workdir: string | null;
  unknown: string[];
  entrypoint: string | null;
  readonly env: Map<string, string>;
  readonly args: Map<string, string>;
}

const assignment = /([A-Za-z_][\w.-]*)(?:=((?:"(?:\\[^]|[^"\\])*"|'[^']*'|\\[^]|[^\s"'\\])*))?/g;

function assign(into: Map<string, string>, rest: string, escape: string, lookup: Lookup): void {
  const pairs = [...rest.matchAll(assignment)].map(([, name, value]) => [name!, value] as const);
  for (const [name, value] of pairs) if (value !== undefined) into.set(name, expand(value, escape, lookup));
}

/** Reads a Dockerfile for what decides where and how commands run in its image; the image itself is not looked at. */
export function readDockerfile(text: string): DockerfileFacts {
  const { escape, instructions } = dockerfileText(text);
  const globals = new Map<string, string>();
  const stages = new Map<string, Stage>();
  let stage: Stage | null = null;
  for (const { name, rest } of instructions) {
    if (name === 'FROM') {
      const [image = '', as, alias] = rest.split(/\s+/).filter((word) => !word.startsWith('--'));
      const from = expand(image, escape, (variable) => globals.get(variable));
      const base = stages.get(from.toLowerCase());
      stage = {
        from,
        workdir: base?.workdir ?? null,
        unknown: [...(base?.unknown ?? [])],
        entrypoint: base?.entrypoint ?? null,
        env: new Map(base?.env),
        args: new Map(),
      };
      if (as?.toLowerCase() === 'as' && alias !== undefined) stages.set(alias.toLowerCase(), stage);
    } else if (stage === null) {
      if (name === 'ARG') assign(globals, rest, escape, (variable) => globals.get(variable));
    } else read(stage, name, rest, escape, globals);
  }
  return stage === null
    ? { escape, from: null, workdir: null, unknown: [], entrypoint: null }
    : { ...stage, escape };
}

function read(
  stage: Stage,
  name: string,
  rest: string,
  escape: string,
  globals: ReadonlyMap<string, string>,
): void {
  const lookup: Lookup = (variable) => stage.env.get(variable) ?? stage.args.get(variable);
  if (name === 'ARG') {
    for (const [, variable] of rest.matchAll(assignment)) {
      const value = globals.get(variable!);
      if (value !== undefined) stage.args.set(variable!, value);
    }
    assign(stage.args, rest, escape, lookup);
  } else if (name === 'ENV') {
    const [, first = '', spaced] = /^(\S+)\s+([^]*)$/.exec(rest) ?? [];
    if (spaced !== undefined && !first.includes('=')) stage.env.set(first, expand(spaced, escape, lookup));
    else assign(stage.env, rest, escape, lookup);
  } else if (name === 'WORKDIR') {
    stage.unknown = [];
    const value = expand(rest, escape, (variable) => {
      const found = lookup(variable);
      if (found === undefined) stage.unknown.push(variable);
      return found;
    });
    stage.workdir = posix.resolve(stage.workdir ?? '/', value);
  } else if (name === 'ENTRYPOINT') {
    stage.entrypoint = /^(\[\s*(""\s*)?\])?$/.test(rest) ? null : rest;
  }
}

/** Instructions that set variables, to be put at the end of a Dockerfile of this escape character. */
export function envInstructions(env: Readonly<Record<string, string>>, escape: string): string {
  return Object.entries(env)
    .map(([name, value]) => {
      const quoted = value.replace(/["$\\`]/g, (char) =>
        char === '"' || char === '$' || char === escape ? escape + char : char,
      );
      return `ENV ${name}="${quoted}"\n`;
    })
    .join('');
}
