import { readFileSync } from 'node:fs';
import type { ChainableCommander, Redis } from 'ioredis';

type Caller = Record<string, (...args: (string | number)[]) => unknown>;

const include = /^-- @include ([a-z-]+)$/gm;

/** Text of a script beside this file, with each `-- @include name` replaced by `includes/name.lua`. */
function load(name: string): string {
  const text = readFileSync(new URL(`./${name}.lua`, import.meta.url), 'utf8');
  return text.replace(include, (_line, part: string) => load(`includes/${part}`));
}

/**
 * A Lua script with its name and number of keys. The first call on a connection sends its text, later ones its hash;
 * a Redis that lost its scripts is answered with the text again.
 */
export class LuaScript<Reply> {
  readonly #name: string;
  readonly #keys: number;
  readonly #lua: string;

  constructor(name: string, keys: number) {
    this.#name = `rollpool:${name}`;
    this.#keys = keys;
    this.#lua = load(name);
  }

  run(redis: Redis, keys: readonly string[], args: readonly (string | number)[]): Promise<Reply> {
    this.#define(redis);
    return (redis as unknown as Caller)[this.#name]!(...keys, ...args) as Promise<Reply>;
  }

  /** Adds the call to a pipeline of `redis`; its reply is read with `reply`. The script must be defined before. */
  queue(pipeline: ChainableCommander, keys: readonly string[], args: readonly (string | number)[]): void {
    (pipeline as unknown as Caller)[this.#name]!(...keys, ...args);
  }

  /** A pipeline on which this script can be queued. */
  pipeline(redis: Redis): ChainableCommander {
    this.#define(redis);
    return redis.pipeline();
  }

  #define(redis: Redis): void {
    if (this.#name in redis) return;
    redis.defineCommand(this.#name, { numberOfKeys: this.#keys, lua: this.#lua });
  }
}

/** Replies of a pipeline in order; throws the first error. */
export async function replies<Reply>(pipeline: ChainableCommander): Promise<Reply[]> {
  const results = (await pipeline.exec()) ?? [];
  return results.map(([error, value]) => {
    if (error) throw error;
    return value as Reply;
  });
}
