import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fleetTaskSchema, type FleetTask } from '../../../src/contracts/index.ts';
import {
  createBaseUrl,
  globalBaseUrl,
  managerUrl,
  normalizeBaseUrl,
} from '../../../src/fleet/api/addresses.ts';
import { createBody } from '../../../src/fleet/api/create-body.ts';
import { parsePythonJson } from '../../../src/fleet/api/python-json.ts';

const task = (fields: Partial<FleetTask> = {}): FleetTask =>
  fleetTaskSchema.parse({ task_key: 't', kind: 'fleet', prompt: 'p', env_key: 'booking', ...fields });
const options = { run_id: 'r', ttl_seconds: 900.2, heartbeat_interval: 300, max_wait_seconds: 150 };

describe('the body that creates an instance', () => {
  it('leaves out what nobody set', () => {
    expect(createBody(task(), options)).toEqual({
      env_key: 'booking',
      created_from: 'sdk',
      ttl_seconds: 901,
      run_id: 'r',
      heartbeat_interval: 300,
      max_wait_seconds: 150,
    });
  });

  it('passes on what the task sets, versions with their v', () => {
    const body = createBody(
      task({
        env_version: '1.2.5',
        data_key: 'kinesis',
        data_version: 'v0.0.14',
        region: 'eu-west-2',
        image_type: 'custom',
        env_variables: { CURRENT_DATE: '2026-01-12' },
      }),
      options,
    );
    expect(body).toMatchObject({
      env_version: 'v1.2.5',
      data_key: 'kinesis',
      data_version: 'v0.0.14',
      region: 'eu-west-2',
      image_type: 'custom',
      env_variables: { CURRENT_DATE: '2026-01-12' },
    });
  });

  it('splits key:version at the first colon, and lets a version that stands by itself win', () => {
    expect(createBody(task({ env_key: 'booking:0.0.7', data_key: 'a:b:c' }), options)).toMatchObject({
      env_key: 'booking',
      env_version: 'v0.0.7',
      data_key: 'a',
      data_version: 'b:c',
    });
    expect(createBody(task({ env_key: 'booking:0.0.7', env_version: 'v9' }), options)).toMatchObject({
      env_version: 'v9',
    });
  });

  it('asks for the mcp image where a screen is to be used', () => {
    expect(createBody(task({ modality: 'computer_use' }), options)).toMatchObject({ image_type: 'mcp' });
    expect(createBody(task({ modality: 'browser_use' }), options)).not.toHaveProperty('image_type');
  });
});

describe('addresses', () => {
  it('creates in the region only when nobody named another service', () => {
    expect(createBaseUrl(globalBaseUrl, 'us-east-1')).toBe('https://us-east-1.fleetai.com');
    expect(createBaseUrl(globalBaseUrl, 'atlantis-1')).toBe(globalBaseUrl);
    expect(createBaseUrl(globalBaseUrl, null)).toBe(globalBaseUrl);
    expect(createBaseUrl('http://localhost:8080', 'us-east-1')).toBe('http://localhost:8080');
  });

  it('has no slash at its end and speaks HTTP', () => {
    expect(normalizeBaseUrl(null)).toBe(globalBaseUrl);
    expect(normalizeBaseUrl('http://localhost:8080//')).toBe('http://localhost:8080');
    expect(normalizeBaseUrl('http://Fleet:80/base/')).toBe('http://fleet/base');
    expect(() => normalizeBaseUrl('ftp://fleet')).toThrow('must begin with http');
    expect(() => normalizeBaseUrl('fleet')).toThrow('must begin with http');
  });

  it('finds the manager where the instance says, else below its root', () => {
    expect(managerUrl('http://i', 'http://i/app/api/v1/env/')).toBe('http://i/app/api/v1/env');
    expect(managerUrl('http://i', null)).toBe('http://i/api/v1/env');
  });
});

describe("Python's JSON", () => {
  it('has NaN and Infinity, and they are not null', () => {
    const value = parsePythonJson('{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN and \\"Infinity"}');
    expect(value).toEqual({
      a: Number.NaN,
      b: [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY],
      c: 'NaN and "Infinity',
    });
  });

  it('is JSON otherwise', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        expect(parsePythonJson(text)).toEqual(JSON.parse(text));
      }),
    );
    expect(() => parsePythonJson('<html>NaN</html>')).toThrow(SyntaxError);
  });
});
