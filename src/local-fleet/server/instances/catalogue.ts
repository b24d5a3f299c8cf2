import type { LocalEnvironment } from '../../environment/environment.ts';
import { Refusal } from '../http/refusal.ts';

/** The environments a server has: the last one given of a key is its default version. */
export class Catalogue {
  /** Key -> version -> environment. */
  readonly #environments = new Map<string, Map<string, LocalEnvironment>>();
  readonly #defaults = new Map<string, string>();

  constructor(environments: readonly LocalEnvironment[]) {
    for (const environment of environments) {
      const versions = this.#environments.get(environment.env_key) ?? new Map<string, LocalEnvironment>();
      versions.set(environment.version, environment);
      this.#environments.set(environment.env_key, versions);
      this.#defaults.set(environment.env_key, environment.version);
    }
  }

  /** Throws 400 with the service's words when there is none. */
  find(env_key: string, version: string | null): LocalEnvironment {
    const versions = this.#environments.get(env_key);
    if (versions === undefined) throw new Refusal(400, `Environment '${env_key}' not found`);
    const wanted = version ?? this.#defaults.get(env_key) ?? '';
    const environment = versions.get(wanted);
    if (environment === undefined) {
      throw new Refusal(400, `Version '${wanted}' not found for environment '${env_key}'`);
    }
    return environment;
  }

  /** The wire's description of a key, or null. */
  describe(env_key: string): Readonly<Record<string, unknown>> | null {
    const versions = this.#environments.get(env_key);
    if (versions === undefined) return null;
    const { name, description, version } = this.find(env_key, null);
    return {
      env_key,
      name,
      description,
      default_version: version,
      versions: Object.fromEntries([...versions.keys()].map((known) => [known, known])),
    };
  }

  describeAll(): readonly (Readonly<Record<string, unknown>> | null)[] {
    return [...this.#environments.keys()].map((env_key) => this.describe(env_key));
  }
}
