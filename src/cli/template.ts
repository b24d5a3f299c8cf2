import { Command } from 'commander';
import { defaultE2bTemplate, type E2bConnection } from '../sandbox/index.ts';
import type { Settings } from '../config/index.ts';
import { BadUse, exitCodes, RunFailed } from './bad-use.ts';
import { settingsOf, wholeNumber } from './options.ts';
import { listenForShutdown } from './shutdown.ts';

interface TemplateFlags extends Record<string, unknown> {
  readonly name?: string;
  readonly cpus: number;
  readonly memoryMb: number;
  readonly json?: boolean;
}

function connectionOf({ e2b }: Settings): E2bConnection {
  const { apiKey, apiUrl, sandboxUrl, domain } = e2b;
  if (apiKey === null) throw new BadUse('E2B_API_KEY is not set: it is the key of the E2B service');
  return { apiKey, apiUrl, sandboxUrl, domain };
}

/** Loaded when a command needs it: the SDK costs every start of a process 0.3 s. */
const loadBuilder = async () => ({
  ...(await import('../sandbox/e2b/build-template.ts')),
  ...(await import('../sandbox/e2b/e2b-failure.ts')),
});

/** The name of the template: as it was given, else as tasks that name none take it. */
function nameOf(flags: TemplateFlags, settings: Settings): string {
  return flags.name ?? settings.e2b.template ?? defaultE2bTemplate;
}

async function build(flags: TemplateFlags): Promise<void> {
  const settings = settingsOf(flags);
  const connection = connectionOf(settings);
  const name = nameOf(flags, settings);
  const { buildClaudeCodeTemplate, explainE2bError } = await loadBuilder();
  using shutdown = listenForShutdown();
  try {
    const built = await buildClaudeCodeTemplate(connection, {
      name,
      cpus: flags.cpus,
      memoryMb: flags.memoryMb,
      onLog: (line) => void process.stderr.write(`${line}\n`),
      signal: shutdown.graceful,
    });
    process.stdout.write(
      flags.json === true
        ? `${JSON.stringify({ name: built.name, template_id: built.templateId })}\n`
        : `${built.name}: built (${built.templateId})\n`,
    );
  } catch (error) {
    shutdown.graceful.throwIfAborted();
    const { refused, why } = explainE2bError(error);
    if (refused) throw new BadUse(`E2B does not take the key (E2B_API_KEY): ${why}`, { cause: error });
    throw new RunFailed(`the template ${name} was not built: ${why}`, { cause: error });
  }
}

async function check(flags: TemplateFlags): Promise<void> {
  const settings = settingsOf(flags);
  const connection = connectionOf(settings);
  const name = nameOf(flags, settings);
  const { templateExists, explainE2bError } = await loadBuilder();
  let there: boolean;
  try {
    there = await templateExists(connection, name);
  } catch (error) {
    throw new BadUse(`E2B does not say whether ${name} is there: ${explainE2bError(error).why}`, {
      cause: error,
    });
  }
  if (!there) process.exitCode = exitCodes.someFailed;
  const says = there ? 'is there' : 'is not there: rollpool template build makes it';
  process.stdout.write(flags.json === true ? `${JSON.stringify({ name, there })}\n` : `${name} ${says}\n`);
}

export function templateCommand(): Command {
  const named = (command: Command): Command =>
    command
      .option(
        '--name <name>',
        `name of the template (default: ROLLPOOL_E2B_TEMPLATE, else ${defaultE2bTemplate})`,
      )
      .option('--json', 'one JSON object');
  return new Command('template')
    .description('make what E2B sandboxes are made from')
    .addCommand(
      named(new Command('build'))
        .description('build the template that Claude Code tasks run in, with the service of E2B_API_KEY')
        .option('--cpus <n>', 'CPUs of each sandbox', wholeNumber(1), 2)
        .option('--memory-mb <n>', 'memory of each sandbox', wholeNumber(128), 2048)
        .action(build),
    )
    .addCommand(
      named(new Command('check'))
        .description('say whether the template is there; exit code 1 when not')
        .action(check),
    );
}
