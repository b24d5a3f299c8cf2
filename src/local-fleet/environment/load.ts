import { readFile, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { z } from 'zod';
import { compileTool, type CompiledTool } from './compile-tool.ts';
import type { LocalEnvironment } from './environment.ts';
import { EnvironmentFolderError, firstFault } from './folder-error.ts';
import { environmentFileSchema, toolsFileSchema, type EnvironmentFile } from './folder-format.ts';
import { openInstance } from './instance.ts';
import { runSqlFile, seedDatabase, type SqlFile } from './seed-database.ts';
import { createConnection } from './sqlite.ts';

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    throw new EnvironmentFolderError(
      `${path}: ${code === 'ENOENT' ? 'is missing' : `cannot be read (${code})`}`,
      cause,
    );
  }
}

async function readJson<T extends z.ZodType>(path: string, schema: T): Promise<z.output<T>> {
  const text = await readText(path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new EnvironmentFolderError(`${path}: is not JSON: ${(cause as Error).message}`, cause);
  }
  const result = schema.safeParse(value);
  if (!result.success) throw new EnvironmentFolderError(`${path}: ${firstFault(result.error)}`, result.error);
  return result.data;
}

async function readSql(directory: string, name: string): Promise<SqlFile> {
  const path = join(directory, name);
  return { name: path, sql: await readText(path) };
}

function compileTools(
  tools: z.output<typeof toolsFileSchema>['tools'],
  path: string,
  variables: ReadonlySet<string>,
  schema: SqlFile,
): Map<string, CompiledTool> {
  const connection = createConnection(':memory:');
  try {
    runSqlFile(connection, schema);
    return new Map(
      tools.map((tool, index) => [
        tool.name,
        compileTool(tool, `${path}: tools[${index}]`, variables, connection),
      ]),
    );
  } finally {
    connection.close();
  }
}

/** The task's variables over the defaults. Throws when one without a default is not named. */
function variablesOf(
  file: EnvironmentFile,
  given: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const variables: Record<string, unknown> = { ...given };
  for (const [name, { default: value }] of Object.entries(file.variables)) {
    if (Object.hasOwn(given, name)) continue;
    if (value === undefined)
      throw new Error(`environment ${file.env_key}: env_variables must name ${name}, which has no default`);
    variables[name] = value;
  }
  return variables;
}

/**
 * Reads an environment from its folder (docs/local-fleet.md) and makes its seeded databases. Throws
 * EnvironmentFolderError: one line with file and field.
 */
export async function loadEnvironment(directory: string): Promise<LocalEnvironment> {
  const file = await readJson(join(directory, 'environment.json'), environmentFileSchema);
  const schema = await readSql(directory, 'schema.sql');
  const toolsPath = join(directory, 'tools.json');
  const { tools: definitions } = await readJson(toolsPath, toolsFileSchema);
  const tools = compileTools(definitions, toolsPath, new Set(Object.keys(file.variables)), schema);
  const seeds = new Map<string, Uint8Array>();
  for (const [key, { seed = [`seed/${key}.sql`] }] of Object.entries(file.data)) {
    const files: SqlFile[] = [];
    for (const name of seed) files.push(await readSql(directory, name));
    seeds.set(key, await seedDatabase(schema, files));
  }
  return {
    env_key: file.env_key,
    version: file.version,
    name: file.name,
    description: file.description,
    default_data_key: file.default_data_key,
    data: new Map(Object.entries(file.data).map(([key, { version }]) => [key, version])),
    tools: [...tools.values()].map(({ name, description, inputSchema, annotations }) => ({
      name,
      description,
      inputSchema,
      ...(annotations === undefined ? {} : { annotations }),
    })),
    async open({ directory: below, data_key, variables }) {
      const seed = seeds.get(data_key);
      if (seed === undefined)
        throw new Error(
          `environment ${file.env_key} has no data ${data_key} (it has ${[...seeds.keys()].join(', ')})`,
        );
      return openInstance({
        directory: below,
        seed,
        tools,
        variables: variablesOf(file, variables),
        maxRows: file.max_rows,
      });
    },
  };
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() ?? false;
}

/** A folder with an environment, or a folder of such folders, each version of a key once. */
export async function loadEnvironments(directory: string): Promise<readonly LocalEnvironment[]> {
  if (await isFile(join(directory, 'environment.json'))) return [await loadEnvironment(directory)];
  let names: string[];
  try {
    names = (await readdir(directory)).sort();
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    throw new EnvironmentFolderError(`${directory}: cannot be read as a folder (${code})`, cause);
  }
  const found = new Map<string, LocalEnvironment>();
  for (const name of names) {
    const folder = join(directory, name);
    if (!(await isFile(join(folder, 'environment.json')))) continue;
    const environment = await loadEnvironment(folder);
    const key = `${environment.env_key}:${environment.version}`;
    if (found.has(key))
      throw new EnvironmentFolderError(`${folder}/environment.json: another folder is ${key}`);
    found.set(key, environment);
  }
  if (found.size === 0)
    throw new EnvironmentFolderError(`${directory}: holds no environment.json, and no folder in it does`);
  return [...found.values()];
}
