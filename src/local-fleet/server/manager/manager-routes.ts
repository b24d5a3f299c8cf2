import { z } from 'zod';
import type { DatabaseName, EnvironmentDatabase } from '../../environment/environment.ts';
import { readBody, readJson } from '../http/exchange.ts';
import { BadGateway, Refusal, unprocessable } from '../http/refusal.ts';
import { Router, type Handler } from '../http/router.ts';
import type { Instance } from '../instances/instance.ts';

const querySchema = z.object({
  query: z.string(),
  args: z.array(z.unknown()).nullish(),
  read_only: z.boolean().nullish(),
});

const names = z.array(z.string()).default([]);
const ignoreSchema = z
  .object({
    tables: names,
    fields: names,
    table_fields: z.record(z.string(), z.array(z.string())).default({}),
  })
  .prefault({});
const diffSchema = z
  .object({ ignore_config: ignoreSchema.nullish() })
  .nullish()
  .transform((body) => body?.ignore_config ?? ignoreSchema.parse({}));

const databaseNames: readonly string[] = ['seed', 'current'] satisfies DatabaseName[];

function databaseName(name: string | undefined): DatabaseName {
  if (!databaseNames.includes(name ?? '')) throw new Refusal(404, `Resource '${name}' not found`);
  return name as DatabaseName;
}

function databaseOf(instance: Instance): EnvironmentDatabase {
  if (instance.database === null) throw new BadGateway();
  return instance.database;
}

const routes: Readonly<Record<string, Handler<Instance>>> = {
  'GET /health': () => ({
    status: 'healthy',
    timestamp: new Date().toISOString(),
    service: 'instance-manager',
  }),
  'POST /reset': async (exchange, _, instance) => {
    await readJson(exchange);
    databaseOf(instance).reset();
    return { success: true, message: 'Environment reset to its seed' };
  },
  'GET /resources': () => ({
    resources: [
      { name: 'seed', type: 'sqlite', mode: 'ro', label: 'as it was seeded' },
      { name: 'current', type: 'sqlite', mode: 'rw', label: 'as it is now' },
    ],
  }),
  'GET /resources/sqlite/:name/describe': (_exchange, { name }, instance) => {
    const tables = databaseOf(instance).describe(databaseName(name));
    const message = `Described ${tables.length} tables`;
    return { success: true, resource_name: name, tables, error: null, message };
  },
  'POST /resources/sqlite/:name/query': async (exchange, { name }, instance) => {
    const database = databaseName(name);
    const { query, args, read_only } = await readBody(exchange, querySchema);
    // The seed is what current is compared with.
    const readOnly = database === 'seed' || (read_only ?? true);
    return databaseOf(instance).query(database, query, args ?? [], readOnly);
  },
  'POST /diff/structured': async (exchange, _, instance) => {
    const parsed = diffSchema.safeParse(await readJson(exchange));
    if (!parsed.success) throw unprocessable('body', parsed.error.issues);
    const diff = databaseOf(instance).diff(parsed.data);
    return { success: true, diff, message: 'Compared current with seed' };
  },
};

/** The manager of an instance, below its `api/v1/env`. It asks for no key, as the service's does not. */
export const manager = new Router(routes);
