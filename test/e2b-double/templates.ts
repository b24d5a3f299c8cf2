import { randomBytes } from 'node:crypto';
import { ApiError } from './answers.ts';
import type { Faults } from './faults.ts';

/** What sandboxes of a template are made from here. */
export interface TemplateSpec {
  /** A Docker image of this machine with bash and python3. */
  readonly image: string;
  /** Paths of this machine and where they are seen, read-only. */
  readonly mounts?: Readonly<Record<string, string>>;
  /** Default: 2. */
  readonly cpuCount?: number;
  /** Default: 512. */
  readonly memoryMB?: number;
}

export interface BuildStep {
  readonly type: string;
  readonly args?: readonly string[];
  readonly filesHash?: string;
}

/** A build that was asked for. The steps are not carried out: the result is a sandbox of the double's own image. */
export interface TemplateBuild {
  readonly templateID: string;
  readonly buildID: string;
  readonly names: readonly string[];
  readonly cpuCount: number;
  readonly memoryMB: number;
  /** null until the build was triggered. */
  start: { fromImage?: string; fromTemplate?: string; steps?: BuildStep[]; startCmd?: string } | null;
  status: 'waiting' | 'building' | 'ready' | 'error';
  readonly log: { timestamp: string; level: string; message: string; step?: string }[];
  reason: { message: string; step?: string } | null;
}

/** Most entries of a build's log in one answer (SDK: "at most 100 log entries per call"). */
const logEntriesPerAnswer = 100;

const plainName = (name: string): string => name.replace(/^[^/]+\//, '').split(':')[0]!;

/** Templates by name or id, and the builds that make new ones. */
export class Templates {
  readonly builds: TemplateBuild[] = [];
  /** What was uploaded for COPY steps, by hash. */
  readonly uploads = new Map<string, Buffer>();
  readonly #specs = new Map<string, { id: string; spec: TemplateSpec }>();
  readonly #built: TemplateSpec;
  readonly #faults: Faults;

  constructor(specs: Readonly<Record<string, TemplateSpec>>, built: TemplateSpec, faults: Faults) {
    this.#built = built;
    this.#faults = faults;
    for (const [name, spec] of Object.entries(specs)) this.put(name, newId('tpl'), spec);
  }

  put(name: string, id: string, spec: TemplateSpec): void {
    this.#specs.set(plainName(name), { id, spec });
  }

  /** By name (tag and team are left out) or id; null when there is none. */
  find(name: string): { id: string; name: string; spec: TemplateSpec } | null {
    const plain = plainName(name);
    for (const [known, { id, spec }] of this.#specs) {
      if (known === plain || id === plain) return { id, name: known, spec };
    }
    return null;
  }

  remove(name: string): boolean {
    const found = this.find(name);
    return found !== null && this.#specs.delete(found.name);
  }

  request(body: Record<string, unknown>): TemplateBuild {
    const name = textOf(body['name'] ?? body['alias']);
    if (!/^[a-z0-9][a-z0-9_/:.-]*$/i.test(name)) throw new ApiError(400, `invalid template name: ${name}`);
    const build: TemplateBuild = {
      templateID: this.find(name)?.id ?? newId('tpl'),
      buildID: newId('bld'),
      names: [plainName(name)],
      cpuCount: Number(body['cpuCount'] ?? 2),
      memoryMB: Number(body['memoryMB'] ?? 512),
      start: null,
      status: 'waiting',
      log: [],
      reason: null,
    };
    this.builds.push(build);
    return build;
  }

  trigger(templateID: string, buildID: string, start: Record<string, unknown>): void {
    const build = this.#build(templateID, buildID);
    build.start = start;
    build.status = 'building';
    const say = (message: string, step?: string): void => {
      build.log.push({
        timestamp: new Date().toISOString(),
        level: 'info',
        message,
        ...(step === undefined ? {} : { step }),
      });
    };
    const { fromImage, fromTemplate, steps = [] } = build.start;
    if (fromTemplate !== undefined && this.find(fromTemplate) === null) {
      this.#fail(build, `template '${fromTemplate}' not found`, 'base');
      return;
    }
    say(`FROM ${fromImage ?? fromTemplate ?? 'base'}`, 'base');
    const fault = this.#faults.take('fail_build');
    for (const [index, step] of steps.entries()) {
      const at = String(index + 1);
      say(`${step.type} ${(step.args ?? []).join(' ')}`, at);
      if (step.filesHash !== undefined && !this.uploads.has(step.filesHash)) {
        this.#fail(build, `files of ${step.filesHash} were not uploaded`, at);
        return;
      }
    }
    if (fault !== null) this.#fail(build, fault.message, fault.step);
  }

  /** The state of a build, as polled. A build that did not fail is ready at the second look. */
  status(templateID: string, buildID: string, logsOffset: number): Record<string, unknown> {
    const build = this.#build(templateID, buildID);
    const logEntries = build.log.slice(logsOffset, logsOffset + logEntriesPerAnswer);
    const answer = {
      templateID,
      buildID,
      status: build.status,
      logEntries,
      logs: logEntries.map((entry) => entry.message),
      ...(build.reason === null ? {} : { reason: { ...build.reason, logEntries: [] } }),
    };
    if (build.status === 'building') {
      build.status = 'ready';
      const { cpuCount, memoryMB } = build;
      for (const name of build.names) this.put(name, templateID, { ...this.#built, cpuCount, memoryMB });
    }
    return answer;
  }

  #fail(build: TemplateBuild, message: string, step?: string): void {
    build.status = 'error';
    build.reason = { message, ...(step === undefined ? {} : { step }) };
  }

  #build(templateID: string, buildID: string): TemplateBuild {
    const found = this.builds.find((build) => build.templateID === templateID && build.buildID === buildID);
    if (found === undefined) throw new ApiError(404, `build '${buildID}' of '${templateID}' not found`);
    return found;
  }
}

/** A field of a request that is text; empty otherwise. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

export function newId(prefix: string): string {
  return `${prefix}${randomBytes(9).toString('hex')}`;
}
