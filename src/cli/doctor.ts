import { Command } from 'commander';
import { fleetProviderOf, sandboxProviderOf } from '../../workers/lanes.ts';
import { probePolicy, type PolicyProbe } from '../gateway/index.ts';
import { probePython } from '../local-fleet/index.ts';
import { createLogger } from '../observe/index.ts';
import { connectFailFast } from '../queue/index.ts';
import {
  claudeCliVersion,
  defaultE2bTemplate,
  DockerProvider,
  findClaudeCli,
  readClaudeCliVersion,
} from '../sandbox/index.ts';
import type { Settings } from '../config/index.ts';
import { exitCodes } from './bad-use.ts';
import { openRedis } from './context.ts';
import { settingsOf, withSettings } from './options.ts';

type Verdict = 'ok' | 'warning' | 'missing';

interface Finding {
  readonly what: string;
  readonly verdict: Verdict;
  /** What was found, or what to do. */
  readonly says: string;
}

/** One thing to look at; several findings are possible, and an error is a finding. */
async function look(what: string, check: () => Promise<Finding[] | string>): Promise<Finding[]> {
  try {
    const found = await check();
    return typeof found === 'string' ? [{ what, verdict: 'ok', says: found }] : found;
  } catch (error) {
    return [{ what, verdict: 'missing', says: error instanceof Error ? error.message : String(error) }];
  }
}

function node(): Finding[] {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > 20 || (major === 20 && minor >= 19);
  return [
    {
      what: 'node',
      verdict: enough ? 'ok' : 'missing',
      says: enough ? process.version : `${process.version}: 20.19 or newer is needed`,
    },
  ];
}

async function redis(settings: Settings): Promise<Finding[]> {
  const log = createLogger({ level: 'silent' });
  await using server = await openRedis(settings, log);
  await using connection = await connectFailFast({ redisUrl: server.url, log });
  const info = await connection.info();
  const field = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? 'unknown';
  const version = field('redis_version');
  const findings: Finding[] = [];
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const enough = major > 6 || (major === 6 && minor >= 2);
  findings.push({
    what: 'redis',
    verdict: enough ? 'ok' : 'warning',
    says: `${version}${server.embedded ? ' (embedded)' : ''}${enough ? '' : ': 6.2 or newer is wanted'}`,
  });
  const policy = field('maxmemory_policy');
  findings.push({
    what: 'redis memory',
    verdict: policy === 'noeviction' ? 'ok' : 'missing',
    says:
      policy === 'noeviction'
        ? `noeviction, ${field('used_memory_human')} used of ${field('maxmemory_human')} (0B: no limit)`
        : `maxmemory-policy is ${policy}: it may evict jobs. CONFIG SET maxmemory-policy noeviction`,
  });
  const aof = field('aof_enabled') === '1';
  findings.push({
    what: 'redis persistence',
    verdict: aof ? 'ok' : 'warning',
    says: aof
      ? 'append-only file on'
      : 'the append-only file is off: a restart of Redis loses what is queued. CONFIG SET appendonly yes',
  });
  return findings;
}

/** Whether conversations will go on from ids, and by which reading of tool calls. */
function continuation(
  { continues, call_format: found }: PolicyProbe,
  asked: Settings['policy']['toolCallParser'],
): string {
  if (!continues) return 'goes on from ids NO';
  if (asked === 'off') return 'goes on from ids no (ROLLPOOL_TOOL_CALL_PARSER=off)';
  if (asked === 'auto')
    return `goes on from ids ${found === null ? 'NO: tool calls as UNKNOWN' : `yes, tool calls as ${found}`}`;
  const other = found === null || found === asked ? '' : `, though its template writes ${found}`;
  return `goes on from ids yes, tool calls as ${asked} (ROLLPOOL_TOOL_CALL_PARSER)${other}`;
}

async function policy(settings: Settings): Promise<Finding[]> {
  const { urls, apiKey, model, streaming } = settings.policy;
  // SGLang is never asked to stream.
  const streams = ({ engine }: PolicyProbe): boolean => streaming && engine !== 'sglang';
  if (urls.length === 0) {
    return [
      { what: 'policy', verdict: 'missing', says: 'none was named: ROLLPOOL_POLICY_URL or --policy-url' },
    ];
  }
  const findings = urls.map(async (url) =>
    look(`policy ${url}`, async () => {
      const probe = await probePolicy({ url, apiKey: apiKey ?? undefined, model });
      const complete =
        probe.ids && probe.prompt_ids && probe.logprobs && (!streams(probe) || probe.streaming_ids);
      const has = (yes: boolean, name: string): string => `${name} ${yes ? 'yes' : 'NO'}`;
      return [
        {
          what: `policy ${url}`,
          verdict: !complete ? 'missing' : probe.missing_flags.length > 0 ? 'warning' : 'ok',
          says: [
            `${probe.engine}, model ${probe.model}`,
            has(probe.ids, 'token ids'),
            has(probe.prompt_ids, 'prompt ids'),
            has(probe.logprobs, 'logprobs'),
            ...(streams(probe) ? [has(probe.streaming_ids, 'ids while it streams')] : []),
            `logprobs mode ${probe.logprobs_mode}`,
            has(probe.tools, 'tools'),
            continuation(probe, settings.policy.toolCallParser),
            ...(probe.missing_flags.length > 0 ? [`start it with: ${probe.missing_flags.join(' ')}`] : []),
          ].join(', '),
        },
      ];
    }),
  );
  return (await Promise.all(findings)).flat();
}

async function docker(settings: Settings): Promise<Finding[]> {
  await using provider = new DockerProvider({
    log: createLogger({ level: 'silent' }),
    defaultImage: settings.sandbox.image,
    dockerHost: settings.sandbox.dockerHost,
  });
  await provider.probe();
  const { image, present } = await provider.inspectImage();
  const remedy =
    settings.sandbox.image === null ? 'scripts/build-sandbox-image builds it' : 'pull or build it';
  return [
    { what: 'docker', verdict: 'ok', says: 'a daemon answers, and sockets can be mounted' },
    {
      what: 'sandbox image',
      verdict: present ? 'ok' : 'missing',
      says: present ? image : `${image} is not on this machine: ${remedy}`,
    },
  ];
}

async function cli(settings: Settings): Promise<Finding[]> {
  const path = await findClaudeCli(settings.sandbox.claudeCli);
  const version = await readClaudeCliVersion(path);
  return [
    {
      what: 'claude code',
      verdict: version === claudeCliVersion ? 'ok' : 'warning',
      says:
        version === claudeCliVersion ? version : `${version}: this version was made for ${claudeCliVersion}`,
    },
  ];
}

/** A function of its own: beside `await using` the compiler leaves the ending of an imported file as it is, which dist has not. */
const loadTemplates = () => import('../sandbox/e2b/build-template.ts');

async function e2b(settings: Settings): Promise<Finding[]> {
  const { apiKey, apiUrl, sandboxUrl, domain, template: named } = settings.e2b;
  if (apiKey === null) return [];
  await using provider = sandboxProviderOf(settings, 'e2b', createLogger({ level: 'silent' }));
  await provider.probe();
  const template = named ?? defaultE2bTemplate;
  const { templateExists } = await loadTemplates();
  const there = await templateExists({ apiKey, apiUrl, sandboxUrl, domain }, template);
  return [
    { what: 'e2b', verdict: 'ok', says: `${apiUrl ?? "the vendor's service"} takes the key` },
    {
      what: 'e2b template',
      verdict: there ? 'ok' : 'missing',
      says: there ? template : `${template} is not there: rollpool template build makes it`,
    },
  ];
}

async function fleet(settings: Settings): Promise<Finding[] | string> {
  await using provider = fleetProviderOf(settings, createLogger({ level: 'silent' }));
  if (provider !== null) {
    await provider.probe();
    return `${settings.fleet.baseUrl ?? "the vendor's service"} takes the key`;
  }
  const python = await probePython();
  return `no FLEET_API_KEY: run brings a local Fleet, whose verifiers run in Python ${python.version}`;
}

export function doctorCommand(): Command {
  return withSettings(new Command('doctor'), 'policyUrl', 'model', 'image')
    .description('look at everything an episode needs, and say what to change')
    .option('--json', 'one JSON object')
    .action(async (flags: Record<string, unknown>) => {
      const settings = settingsOf(flags);
      const findings = [
        ...node(),
        ...(await look('redis', () => redis(settings))),
        ...(await look('docker', () => docker(settings))),
        ...(await look('claude code', () => cli(settings))),
        ...(await look('e2b', () => e2b(settings))),
        ...(await look('fleet', () => fleet(settings))),
        ...(await policy(settings)),
      ];
      if (flags['json'] === true) {
        process.stdout.write(`${JSON.stringify({ findings })}\n`);
      } else {
        const mark = { ok: 'ok     ', warning: 'warning', missing: 'MISSING' } as const;
        const width = Math.max(...findings.map(({ what }) => what.length));
        for (const { what, verdict, says } of findings) {
          process.stdout.write(`${mark[verdict]}  ${what.padEnd(width)}  ${says}\n`);
        }
      }
      if (findings.some(({ verdict }) => verdict === 'missing')) process.exitCode = exitCodes.someFailed;
    });
}
