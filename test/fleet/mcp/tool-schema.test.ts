import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toParameters } from '../../../src/fleet/mcp/tool-schema.ts';

const object = (properties: object, more: object = {}): object => ({ type: 'object', properties, ...more });

test.each([null, undefined, 7, 'text', [], true, {}])(
  'a schema that says nothing (%j) takes no arguments',
  (schema) => {
    expect(toParameters(schema)).toEqual({ type: 'object', properties: {}, required: [] });
  },
);

test('titles, $schema and null defaults go, and everything else stays', () => {
  const schema = object(
    {
      city: { type: 'string', title: 'City', description: 'where', enum: ['Oslo', 'Rome'], default: 'Oslo' },
      page: { type: 'integer', default: null, minimum: 1 },
      nested: object({ deep: { type: 'array', title: 'Deep', items: { type: 'number', title: 'N' } } }),
    },
    {
      $schema: 'http://json-schema.org/draft-07/schema#',
      title: 'Arguments',
      required: ['city'],
      additionalProperties: false,
    },
  );
  expect(toParameters(schema)).toEqual({
    type: 'object',
    properties: {
      city: { type: 'string', description: 'where', enum: ['Oslo', 'Rome'], default: 'Oslo' },
      page: { type: 'integer', minimum: 1 },
      nested: { type: 'object', properties: { deep: { type: 'array', items: { type: 'number' } } } },
    },
    required: ['city'],
    additionalProperties: false,
  });
});

test('properties named like keywords are properties, and values that look like schemas are values', () => {
  const properties = {
    title: { type: 'string' },
    default: { type: 'object', default: { title: 'kept', default: null } },
    $schema: { const: { title: 'kept' } },
    anyOf: { enum: [{ anyOf: [{ title: 'kept' }, { type: 'null' }] }] },
    __proto_: { type: 'string' },
  };
  expect(toParameters(object(properties))['properties']).toEqual(properties);
  const own = JSON.parse('{"properties":{"__proto__":{"type":"string","title":"T"}}}') as object;
  expect(JSON.stringify(toParameters(own)['properties'])).toBe('{"__proto__":{"type":"string"}}');
});

test('an optional value becomes the value; any other choice stays one', () => {
  const nullable = {
    anyOf: [{ type: 'string', format: 'date' }, { type: 'null' }],
    description: 'when',
    default: null,
  };
  const choice = { anyOf: [{ type: 'string' }, { type: 'integer' }, { type: 'null' }] };
  const reference = { anyOf: [{ $ref: '#/$defs/Room' }, { type: 'null' }], title: 'Room' };
  const conflict = { anyOf: [{ type: 'string', minLength: 1 }, { type: 'null' }], minLength: 5 };
  const $defs = { Room: object({ beds: { type: 'integer', title: 'Beds' } }) };
  expect(toParameters(object({ nullable, choice, reference, conflict }, { $defs }))).toEqual({
    type: 'object',
    properties: {
      nullable: { type: 'string', format: 'date', description: 'when' },
      choice,
      reference: { $ref: '#/$defs/Room' },
      conflict,
    },
    required: [],
    $defs: { Room: object({ beds: { type: 'integer' } }) },
  });
});

test('a tuple becomes a list of what its places may hold', () => {
  const point = {
    type: 'array',
    prefixItems: [{ type: 'number', title: 'X' }, { type: 'number' }],
    minItems: 2,
    maxItems: 2,
  };
  const mixed = { type: 'array', prefixItems: [{ type: 'string' }, { type: 'integer' }], items: false };
  const draft7 = { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'boolean' } };
  expect(toParameters(object({ point, mixed, draft7 }))['properties']).toEqual({
    point: { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 },
    mixed: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
    draft7: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'boolean' }] } },
  });
});

test('what a reference points into keeps its place', () => {
  const parent = { anyOf: [object({ name: { type: 'string' } }), { type: 'null' }] };
  const properties = { parent, other: { $ref: '#/properties/parent/anyOf/0/properties/name' } };
  expect(toParameters(object(properties))['properties']).toEqual(properties);
});

test('a root that is only a reference says itself what it takes', () => {
  const $defs = { Input: object({ a: { type: 'string' } }, { required: ['a'] }) };
  expect(toParameters({ $ref: '#/$defs/Input', $defs })).toEqual({
    type: 'object',
    properties: { a: { type: 'string' } },
    required: ['a'],
    $defs,
  });
});

const defNames = ['A', 'B', 'c/d', 'e~f', 'ü %'];
const pointerTo = (name: string): string =>
  `#/$defs/${encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))}`;

const { schema: anySchema } = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<unknown>(
      { type: 'null' },
      true,
      { type: 'string', title: 'T' },
      { type: 'integer', default: null },
    ),
    fc.constantFrom(...defNames).map((name) => ({ $ref: pointerTo(name), title: 'R' })),
    fc.record({
      type: fc.constant('object'),
      properties: fc.dictionary(fc.string(), tie('schema')),
      required: fc.array(fc.string()),
    }),
    fc.record({
      anyOf: fc.array(tie('schema'), { maxLength: 3 }),
      default: fc.constantFrom(null, 1),
      description: fc.string(),
    }),
    fc.record({ type: fc.constant('array'), prefixItems: fc.array(tie('schema'), { maxLength: 3 }) }),
    fc.record({
      type: fc.constant('array'),
      items: fc.oneof(tie('schema'), fc.array(tie('schema'), { maxLength: 3 })),
    }),
    fc.record({ additionalProperties: tie('schema'), title: fc.string() }),
    fc.record({ enum: fc.array(fc.jsonValue()), default: fc.jsonValue() }),
  ),
}));

const anyInput = fc
  .record({
    properties: fc.dictionary(fc.string(), anySchema),
    $defs: fc
      .tuple(...defNames.map(() => anySchema))
      .map((defs) => Object.fromEntries(defs.map((def, i) => [defNames[i]!, def]))),
    title: fc.string(),
  })
  .map((schema) => JSON.parse(JSON.stringify({ type: 'object', ...schema })) as Record<string, unknown>);

// What stands under these is data: a `$ref` in it refers to nothing.
const data = new Set(['enum', 'default', 'const', 'examples']);

function references(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) => {
    if (data.has(key)) return [];
    return key === '$ref' && typeof child === 'string' ? [child] : references(child);
  });
}

test('property: the input is not changed, no definition is lost, no reference appears, and twice is once', () => {
  fc.assert(
    fc.property(anyInput, (input) => {
      const before = JSON.stringify(input);
      const output = toParameters(input);
      expect(JSON.stringify(input)).toBe(before);
      expect(Object.keys(output['$defs'] as object)).toEqual(defNames);
      const known = new Set(references(input));
      for (const reference of references(output)) {
        expect(known.has(reference)).toBe(true);
        expect(defNames.map(pointerTo)).toContain(reference);
      }
      expect(output['type']).toBe('object');
      expect(toParameters(output)).toEqual(output);
    }),
    {
      // An enum may hold anything, also what looks like a reference.
      examples: [
        [
          {
            type: 'object',
            properties: { a: { enum: [{ $ref: '' }], default: [] } },
            $defs: Object.fromEntries(defNames.map((name) => [name, { type: 'null' }])),
          },
        ],
      ],
    },
  );
});

test('property: the properties of the input are those of the output', () => {
  fc.assert(
    fc.property(anyInput, (input) => {
      const output = toParameters(input);
      expect(Object.keys(output['properties'] as object)).toEqual(Object.keys(input['properties'] as object));
    }),
  );
});

test('a schema nested far too deep is passed on, not a crash', () => {
  let deep: object = { type: 'string' };
  for (let level = 0; level < 5_000; level++) deep = { type: 'array', items: deep };
  const parameters = toParameters(object({ deep }));
  expect(parameters['properties']).toHaveProperty('deep');
  // Engines read it with Python, whose reader gives up at a depth of 1000.
  expect(JSON.stringify(parameters).split('{').length).toBeLessThan(900);
});

test('half of a surrogate pair in a schema does not reach an engine, which cannot encode it', () => {
  const parameters = toParameters(object({ 'a\ud800': { description: 'b\udc00', enum: ['c\ud800'] } }));
  expect(parameters['properties']).toEqual({ 'a\ufffd': { description: 'b\ufffd', enum: ['c\ufffd'] } });
});
