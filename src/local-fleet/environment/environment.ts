/** A tool as MCP lists it. */
export interface LocalTool {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of type object. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** As MCP defines them: whoever sees `readOnlyHint` may make a call again whose answer was lost. */
  readonly annotations?: { readonly readOnlyHint: boolean };
}

/** What a tool answered: a JSON value that the server sends as one text, or why it refused. */
export type LocalToolOutcome = { readonly value: unknown } | { readonly error: string };

/** The two databases of an instance: as it was seeded, and as it is now. */
export type DatabaseName = 'seed' | 'current';

/** The wire's answer to a query (docs/local-fleet.md): a failed one is an answer too. */
export interface QueryOutcome {
  readonly success: boolean;
  readonly columns: readonly string[] | null;
  readonly rows: readonly (readonly unknown[])[] | null;
  readonly rows_affected: number | null;
  readonly last_insert_id: number | null;
  readonly error: string | null;
  readonly message: string;
}

export interface TableDescription {
  readonly name: string;
  readonly sql: string;
  readonly columns: readonly Readonly<Record<string, unknown>>[];
}

/** What must not count as a difference. */
export interface IgnoreConfig {
  readonly tables: readonly string[];
  readonly fields: readonly string[];
  readonly table_fields: Readonly<Record<string, readonly string[]>>;
}

/** One instance's data. Closing it removes its files. */
export interface EnvironmentDatabase extends AsyncDisposable {
  /** SQLite files, for a verifier that opens them read-only. */
  readonly seedPath: string;
  readonly currentPath: string;
  callTool(name: string, args: Readonly<Record<string, unknown>>): LocalToolOutcome;
  /** Never throws: what SQLite refuses is `success: false` with its words. */
  query(database: DatabaseName, sql: string, args: readonly unknown[], readOnly: boolean): QueryOutcome;
  describe(database: DatabaseName): readonly TableDescription[];
  /** Rows added, removed and changed a table, between seed and current. */
  diff(ignore: IgnoreConfig): Readonly<Record<string, unknown>>;
  /** Current becomes the seed again. */
  reset(): void;
}

/** An environment as a folder defines it. */
export interface LocalEnvironment {
  readonly env_key: string;
  readonly version: string;
  readonly name: string;
  readonly description: string;
  readonly default_data_key: string;
  /** Data key -> its version. */
  readonly data: ReadonlyMap<string, string>;
  readonly tools: readonly LocalTool[];
  /** Makes the databases of one instance below `directory`. Throws for a data key it does not have. */
  open(options: {
    readonly directory: string;
    readonly data_key: string;
    readonly variables: Readonly<Record<string, unknown>>;
  }): Promise<EnvironmentDatabase>;
}
