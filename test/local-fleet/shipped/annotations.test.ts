import { expect, it } from 'vitest';
import { shippedEnvironments } from '../../../src/local-fleet/index.ts';

it('a tool says that it only reads where every one of its statements does', async () => {
  const [workshop] = await shippedEnvironments();
  const readOnly = workshop?.tools
    .filter(({ annotations }) => annotations?.readOnlyHint)
    .map(({ name }) => name);
  expect(readOnly).toEqual(expect.arrayContaining(['list_staff', 'find_customers', 'find_jobs', 'get_job']));
  for (const name of ['book_job', 'move_job', 'set_job_status', 'add_part', 'order_part', 'send_message']) {
    expect(readOnly).not.toContain(name);
  }
});
