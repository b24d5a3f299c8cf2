import { describe, expect, it } from 'vitest';
import { ask, create, startNotesFleet } from './fleet-client.ts';

const noKey = {};

describe('the manager of an instance', () => {
  it('answers without a key what is in its databases', async () => {
    await using fleet = await startNotesFleet();
    const { api } = (await create(fleet)).json.urls.manager as { api: string };
    const query = (name: string, body: unknown): ReturnType<typeof ask> =>
      ask(`${api}/resources/sqlite/${name}/query`, 'POST', body, noKey);

    expect((await ask(`${api}/health`, 'GET', undefined, noKey)).json).toMatchObject({ status: 'healthy' });
    expect((await ask(`${api}/resources`, 'GET', undefined, noKey)).json).toMatchObject({
      resources: [
        { name: 'seed', type: 'sqlite', mode: 'ro' },
        { name: 'current', type: 'sqlite', mode: 'rw' },
      ],
    });
    expect(
      (await ask(`${api}/resources/sqlite/current/describe`, 'GET', undefined, noKey)).json,
    ).toMatchObject({
      success: true,
      resource_name: 'current',
      tables: [{ name: 'notes' }],
    });
    expect(
      (await query('current', { query: 'SELECT text FROM notes WHERE id = ?', args: [1], read_only: true }))
        .json,
    ).toMatchObject({ success: true, columns: ['text'], rows: [['milk']] });

    const insert = "INSERT INTO notes (text) VALUES ('tea')";
    expect((await query('current', { query: insert })).json).toMatchObject({ success: false });
    expect((await query('current', { query: insert, read_only: false })).json.success).toBe(true);
    expect((await query('seed', { query: insert, read_only: false })).json.success).toBe(false);
    expect((await query('else', { query: insert })).status).toBe(404);
    expect((await query('current', {})).status).toBe(422);

    const diff = (body: unknown): ReturnType<typeof ask> =>
      ask(`${api}/diff/structured`, 'POST', body, noKey);
    expect((await diff({})).json).toMatchObject({
      success: true,
      diff: { notes: { seed: [{ id: 1 }], current: [{ id: 1 }, { id: 2, text: 'tea' }] } },
    });
    expect((await diff({ ignore_config: { tables: ['notes'] } })).json).toMatchObject({
      success: true,
      diff: {},
    });

    expect((await ask(`${api}/reset`, 'POST', {}, noKey)).json).toMatchObject({ success: true });
    expect((await ask(`${api}/reset`, 'POST', undefined, noKey)).json).toMatchObject({ success: true });
    expect((await query('current', { query: 'SELECT count(*) AS n FROM notes' })).json.rows).toEqual([[1]]);
  });

  it('is behind a gateway that has nobody to ask once the instance is gone', async () => {
    await using fleet = await startNotesFleet();
    const made = await create(fleet);
    await ask(`${fleet.url}/v1/env/instances/${made.json.instance_id}`, 'DELETE');
    const answer = await ask(`${made.json.urls.manager.api}/health`, 'GET', undefined, noKey);
    expect(answer.status).toBe(502);
    expect(answer.headers.get('content-type')).toBe('text/html');
    expect((await ask(`${fleet.url}/i/unheard-of/api/v1/env/health`, 'GET', undefined, noKey)).status).toBe(
      404,
    );
  });
});
