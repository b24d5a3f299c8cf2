import { InvalidArgumentError, Option, type Command } from 'commander';
import { checkName } from '../queue/index.ts';
import { loadSettings, type Settings, type SettingsOverrides } from '../config/index.ts';

/** Flags that stand for an environment variable: the flag wins, and a fault names the flag. */
const settingFlags = {
  policyUrl: ['--policy-url <url>', 'ROLLPOOL_POLICY_URL', 'inference server; several replicas with commas'],
  model: ['--model <name>', 'ROLLPOOL_MODEL', "model name (default: the server's only one)"],
  lanes: ['--lanes <lanes>', 'ROLLPOOL_LANES', 'lanes to serve, with commas'],
  concurrency: [
    '--concurrency <n>',
    'ROLLPOOL_CONCURRENCY',
    'episodes at once: N, or lane=N,... (default: 4 for each core)',
  ],
  image: ['--image <image>', 'ROLLPOOL_SANDBOX_IMAGE', 'Docker image for tasks that name none'],
  logLevel: ['--log-level <level>', 'ROLLPOOL_LOG_LEVEL', 'fatal, error, warn, info, debug, trace or silent'],
} as const;

type SettingFlag = keyof typeof settingFlags;

/** Adds flags that override settings. */
export function withSettings(command: Command, ...flags: SettingFlag[]): Command {
  for (const flag of flags) {
    const [usage, , about] = settingFlags[flag];
    command.addOption(new Option(usage, about));
  }
  return command;
}

/** Settings from the environment with a command's flags over it. Throws SettingsError with every fault. */
export function settingsOf(
  flags: Readonly<Record<string, unknown>>,
  extra: SettingsOverrides = {},
): Settings {
  const overrides: Record<string, { value: string; from: string }> = {};
  for (const [flag, [usage, variable]] of Object.entries(settingFlags)) {
    const value = flags[flag];
    if (typeof value === 'string') overrides[variable] = { value, from: usage.split(' ')[0] ?? usage };
  }
  if (flags['allowLocal'] === true)
    overrides['ROLLPOOL_ALLOW_LOCAL'] = { value: 'true', from: '--allow-local' };
  return loadSettings(process.env, { ...extra, ...overrides });
}

/** Parser of a whole number of at least `least` and at most `most`. */
export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most) {
      const bounds = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
      throw new InvalidArgumentError(`It must be a whole number ${bounds}.`);
    }
    return value;
  };
}

/** Parser of any whole number. */
export function integer(text: string): number {
  if (!/^-?\d+$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

/** Parser of the name of a run or a batch. */
export function runName(text: string): string {
  try {
    checkName('it', text);
  } catch {
    throw new InvalidArgumentError('It must be 1 to 128 letters, digits, ".", "_" or "-".');
  }
  return text;
}
