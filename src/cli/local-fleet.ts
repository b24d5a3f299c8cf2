import { Command } from 'commander';
import { loadEnvironments, shippedEnvironments } from '../local-fleet/index.ts';
import { createLogger } from '../observe/index.ts';
import { settingsOf, wholeNumber, withSettings } from './options.ts';
import { openLocalFleet } from './run-fleet.ts';
import { aborted, listenForShutdown } from './shutdown.ts';

interface LocalFleetFlags extends Record<string, unknown> {
  readonly environments?: string;
  readonly host: string;
  readonly port: number;
  readonly instanceLimit: number;
  readonly json?: boolean;
}

export function localFleetCommand(): Command {
  return withSettings(new Command('local-fleet'), 'logLevel')
    .description("serve Fleet environments of this machine over the service's wire (docs/local-fleet.md)")
    .option(
      '--environments <dir>',
      'folder of further environments, which win over shipped ones with the same key',
    )
    .option('--port <n>', '0 takes a free one', wholeNumber(0, 65_535), 0)
    .option('--host <address>', 'where it listens', '127.0.0.1')
    .option('--instance-limit <n>', 'instances that may live at once', wholeNumber(1), 1_000)
    .option('--json', 'say where it listens and what it has as one JSON object')
    .action(async (flags: LocalFleetFlags) => {
      const settings = settingsOf(flags);
      using shutdown = listenForShutdown();
      const own = flags.environments === undefined ? [] : await loadEnvironments(flags.environments);
      const keys = new Set(own.map(({ env_key }) => env_key));
      const shipped = (await shippedEnvironments()).filter(({ env_key }) => !keys.has(env_key));
      const environments = [...shipped, ...own];
      await using fleet = await openLocalFleet(settings.redis.prefix, {
        environments,
        apiKey: settings.fleet.apiKey,
        host: flags.host,
        port: flags.port,
        instanceLimit: flags.instanceLimit,
        log: createLogger({ level: settings.logLevel }),
      });
      const served = environments.map(({ env_key, version }) => ({ env_key, version }));
      process.stdout.write(
        flags.json === true
          ? `${JSON.stringify({ url: fleet.url, environments: served })}\n`
          : `${fleet.url}\n`,
      );
      await aborted(shutdown.graceful);
    });
}
