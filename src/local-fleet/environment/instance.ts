import { chmodSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CompiledTool } from './compile-tool.ts';
import { diffDatabases } from './diff.ts';
import type {
  DatabaseName,
  EnvironmentDatabase,
  IgnoreConfig,
  LocalToolOutcome,
  QueryOutcome,
  TableDescription,
} from './environment.ts';
import { describeTables, failedQuery, runQuery } from './query.ts';
import { runTool } from './run-tool.ts';
import { openConnection, whileReadOnly, type Connection, type SqlBounds } from './sqlite.ts';

/** Verifiers read whole tables over the query call; a table of more rows is refused rather than cut. */
const queryBounds: SqlBounds = { maxRows: 100_000, milliseconds: 10_000 };
const toolMilliseconds = 5_000;

export interface InstanceOptions {
  readonly directory: string;
  /** The bytes of the seeded database. */
  readonly seed: Uint8Array;
  readonly tools: ReadonlyMap<string, CompiledTool>;
  readonly variables: Readonly<Record<string, unknown>>;
  readonly maxRows: number;
}

class InstanceDatabase implements EnvironmentDatabase {
  readonly seedPath: string;
  readonly currentPath: string;
  readonly #directory: string;
  readonly #options: InstanceOptions;
  #connection: Connection | null = null;
  #closed = false;

  constructor(directory: string, options: InstanceOptions) {
    this.#directory = directory;
    this.#options = options;
    this.seedPath = join(directory, 'seed.db');
    this.currentPath = join(directory, 'current.db');
    writeFileSync(this.seedPath, options.seed);
    // The seed is what a verifier compares with.
    chmodSync(this.seedPath, 0o444);
    writeFileSync(this.currentPath, options.seed);
  }

  callTool(name: string, args: Readonly<Record<string, unknown>>): LocalToolOutcome {
    if (this.#closed) return { error: 'The environment is closed.' };
    const tool = this.#options.tools.get(name);
    if (tool === undefined) return { error: `There is no tool ${name}.` };
    const bounds = { maxRows: this.#options.maxRows, milliseconds: toolMilliseconds };
    return runTool(this.#current(), tool, args, this.#options.variables, bounds);
  }

  query(database: DatabaseName, sql: string, args: readonly unknown[], readOnly: boolean): QueryOutcome {
    if (this.#closed) return failedQuery('the environment is closed');
    const run = (connection: Connection): QueryOutcome => runQuery(connection, sql, args, queryBounds);
    return database === 'current' && !readOnly ? run(this.#current()) : this.#reading(database, run);
  }

  describe(database: DatabaseName): readonly TableDescription[] {
    return this.#reading(database, describeTables);
  }

  diff(ignore: IgnoreConfig): Readonly<Record<string, unknown>> {
    return this.#reading('seed', (seed) =>
      this.#reading('current', (current) => diffDatabases(seed, current, ignore)),
    );
  }

  reset(): void {
    this.#release();
    writeFileSync(this.currentPath, this.#options.seed);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#release();
    await rm(this.#directory, { recursive: true, force: true });
  }

  /** One connection for the instance's life, opened when first needed: many instances only ever live and die. */
  #current(): Connection {
    this.#connection ??= openConnection(this.currentPath, { readOnly: false });
    return this.#connection;
  }

  #reading<T>(database: DatabaseName, use: (connection: Connection) => T): T {
    if (database === 'current') {
      const current = this.#current();
      return whileReadOnly(current, () => use(current));
    }
    const seed = openConnection(this.seedPath, { readOnly: true });
    try {
      return use(seed);
    } finally {
      seed.close();
    }
  }

  #release(): void {
    this.#connection?.close();
    this.#connection = null;
  }
}

export async function openInstance(options: InstanceOptions): Promise<EnvironmentDatabase> {
  await mkdir(options.directory, { recursive: true });
  const directory = await mkdtemp(join(options.directory, 'data-'));
  try {
    return new InstanceDatabase(directory, options);
  } catch (error) {
    await rm(directory, { recursive: true, force: true });
    throw error;
  }
}
