import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { infraFailure, reasonOf } from '../../sandbox-failure.ts';

const helperMs = 15_000;

/** What the daemon hands to a registry. A secret: it goes to the daemon and nowhere else. */
export interface RegistryLogin {
  readonly username?: string;
  readonly password?: string;
  readonly identitytoken?: string;
  readonly serveraddress: string;
}

/** Docker's own configuration, as `docker login` writes it. Other fields are not looked at. */
const configSchema = z.object({
  auths: z
    .record(
      z.string(),
      z.object({
        auth: z.string().optional(),
        identitytoken: z.string().optional(),
      }),
    )
    .default({}),
  credsStore: z.string().optional(),
  credHelpers: z.record(z.string(), z.string()).default({}),
});
type DockerConfig = z.infer<typeof configSchema>;

const helperAnswerSchema = z.object({ Username: z.string(), Secret: z.string() });

/** `https://host/v1/` and `host` are one. */
function hostOf(key: string): string {
  return key.replace(/^https?:\/\//, '').replace(/\/(v1|v2)?\/?$/, '');
}

async function readConfig(directory: string): Promise<DockerConfig | null> {
  const path = join(directory, 'config.json');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch {
    return null;
  }
  try {
    return configSchema.parse(JSON.parse(text));
  } catch {
    // Not its content in the message: that may be a secret.
    throw infraFailure('docker_config_bad', `${path} cannot be read as Docker's configuration`, {
      phase: 'boot',
    });
  }
}

/** Asks a program of the user's PATH as Docker does: the registry on its stdin, JSON on its stdout; exit code 1: it has none. */
async function askHelper(helper: string, registry: string): Promise<RegistryLogin | null> {
  const program = `docker-credential-${helper}`;
  const answer = await new Promise<string | null>((resolve, reject) => {
    const child = execFile(program, ['get'], { timeout: helperMs, maxBuffer: 2 ** 20 }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else if (/credentials not found/.test(stdout)) resolve(null);
      else
        reject(
          infraFailure(
            'docker_config_bad',
            `${program} gives no login for ${registry}: ${reasonOf(error.code ?? error.signal)}`,
            {
              phase: 'boot',
            },
          ),
        );
    });
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(registry);
  });
  if (answer === null) return null;
  let found: z.infer<typeof helperAnswerSchema>;
  try {
    found = helperAnswerSchema.parse(JSON.parse(answer));
  } catch {
    throw infraFailure('docker_config_bad', `${program} gave no login that can be read`, { phase: 'boot' });
  }
  return found.Username === '<token>'
    ? { identitytoken: found.Secret, serveraddress: registry }
    : { username: found.Username, password: found.Secret, serveraddress: registry };
}

/**
 * The login that `docker` itself would use for a registry; null: none. Read anew each time, as logins are renewed while a
 * worker runs. Rejects (infra) when there is a configuration and it cannot be used.
 */
export async function findLogin(
  registry: string,
  directory: string = join(homedir(), '.docker'),
): Promise<RegistryLogin | null> {
  const config = await readConfig(directory);
  if (config === null) return null;
  const wanted = hostOf(registry);
  const helper = Object.entries(config.credHelpers).find(([key]) => hostOf(key) === wanted)?.[1];
  if (helper !== undefined) return askHelper(helper, registry);
  const entry = Object.entries(config.auths).find(([key]) => hostOf(key) === wanted)?.[1];
  if (entry?.identitytoken) return { identitytoken: entry.identitytoken, serveraddress: registry };
  if (entry?.auth) {
    const text = Buffer.from(entry.auth, 'base64').toString('utf8');
    const colon = text.indexOf(':');
    return { username: text.slice(0, colon), password: text.slice(colon + 1), serveraddress: registry };
  }
  return config.credsStore === undefined ? null : askHelper(config.credsStore, registry);
}
