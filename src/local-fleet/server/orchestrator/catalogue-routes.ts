import { Refusal } from '../http/refusal.ts';
import type { Handler } from '../http/router.ts';
import type { Catalogue } from '../instances/catalogue.ts';
import { account } from '../instances/instance-answer.ts';
import { regions } from '../instances/instance-request.ts';
import type { Instances } from '../instances/instances.ts';

/** What the server has, and whom it is for. */
export function catalogueRoutes(
  catalogue: Catalogue,
  instances: Instances,
): Readonly<Record<string, Handler>> {
  return {
    'GET /v1/env': () => catalogue.describeAll(),
    'GET /v1/env/:env_key': (_exchange, { env_key = '' }) => {
      const described = catalogue.describe(env_key);
      if (described === null) throw new Refusal(404, `Environment '${env_key}' not found`);
      return described;
    },
    'GET /v1/regions': () => regions,
    'GET /v1/account': () => ({
      ...account,
      instance_limit: instances.limit,
      instance_count: instances.live().length,
    }),
  };
}
