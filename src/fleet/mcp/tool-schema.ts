import { safeText } from './result-text.ts';

type Node = Readonly<Record<string, unknown>>;

/** Keywords whose value is a schema, an array of schemas, or an object of schemas (JSON Schema 2020-12 and draft 7). */
const oneSchema = new Set([
  'items',
  'additionalItems',
  'unevaluatedItems',
  'contains',
  'additionalProperties',
  'unevaluatedProperties',
  'propertyNames',
  'not',
  'if',
  'then',
  'else',
]);
const manySchemas = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems', 'items']);
const namedSchemas = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);

/** What may stand beside an `anyOf` and says nothing about which values are valid. */
const annotations = new Set([
  'description',
  'default',
  'examples',
  'deprecated',
  'readOnly',
  'writeOnly',
  'title',
]);

/** Deeper than anybody writes by hand; what lies below is passed on as it is, */
const deepest = 200;
/** down to here: Python's JSON reader, which engines use, gives up before 1000. */
const bottom = 400;

/** The same with every text in it changed, and nesting down to `bottom`, where anything is valid. */
function reworded(value: unknown, words: (text: string) => string, depth = 0): unknown {
  if (typeof value === 'string') return words(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth > bottom) return Array.isArray(value) ? [] : {};
  if (Array.isArray(value)) return value.map((item) => reworded(item, words, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [words(key), reworded(item, words, depth + 1)]),
  );
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isNullSchema(schema: unknown): boolean {
  return isNode(schema) && (schema['type'] === 'null' || ('const' in schema && schema['const'] === null));
}

/** A `#/...` pointer as the walk writes paths; null for any other reference. */
function localPath(ref: unknown): string | null {
  if (typeof ref !== 'string' || !ref.startsWith('#/')) return null;
  try {
    return decodeURIComponent(ref).slice(1);
  } catch {
    return ref.slice(1);
  }
}

function referredPaths(value: unknown, found: Set<string>, depth = 0): Set<string> {
  if (depth > deepest || typeof value !== 'object' || value === null) return found;
  for (const [key, child] of Object.entries(value)) {
    const path = key === '$ref' ? localPath(child) : null;
    if (path !== null) found.add(path);
    else referredPaths(child, found, depth + 1);
  }
  return found;
}

const escaped = (key: string): string => key.replaceAll('~', '~0').replaceAll('/', '~1');

class Walk {
  readonly #referred: readonly string[];

  constructor(root: unknown) {
    this.#referred = [...referredPaths(root, new Set())];
  }

  /** A part that a `$ref` points into keeps its place, or the reference would lead nowhere. */
  #mayMove(path: string): boolean {
    return !this.#referred.some((target) => target === path || target.startsWith(`${path}/`));
  }

  schema(value: unknown, path: string, depth: number): unknown {
    if (!isNode(value) || depth > deepest) return value;
    const entries: [string, unknown][] = [];
    for (const [key, child] of Object.entries(value)) {
      if (key === '$schema' || (key === 'title' && typeof child === 'string')) continue;
      if (key === 'default' && child === null) continue;
      entries.push([key, this.#keyword(key, child, `${path}/${escaped(key)}`, depth + 1)]);
    }
    // fromEntries defines properties, so that one named __proto__ stays one.
    return this.#tuple(this.#nullable(Object.fromEntries(entries), path), path);
  }

  #keyword(key: string, value: unknown, path: string, depth: number): unknown {
    if (manySchemas.has(key) && Array.isArray(value)) {
      return value.map((member, index) => this.schema(member, `${path}/${index}`, depth));
    }
    if (oneSchema.has(key)) return this.schema(value, path, depth);
    if (namedSchemas.has(key) && isNode(value)) {
      return Object.fromEntries(
        Object.entries(value).map(([name, member]) => [
          name,
          this.schema(member, `${path}/${escaped(name)}`, depth),
        ]),
      );
    }
    return value;
  }

  /** `anyOf: [X, null]` -> X with what stood beside the anyOf; any other anyOf stays. */
  #nullable(schema: Node, path: string): Node {
    const { anyOf, ...beside } = schema;
    if (!Array.isArray(anyOf) || !anyOf.some(isNullSchema)) return schema;
    const [only, ...others] = (anyOf as unknown[]).filter((member) => !isNullSchema(member));
    if (!isNode(only) || others.length > 0 || !this.#mayMove(`${path}/anyOf`)) return schema;
    const conflict = Object.keys(beside).some((key) => key in only && !annotations.has(key));
    return conflict ? schema : { ...only, ...beside };
  }

  /** A tuple -> a list of whatever its places may hold: engines that compile schemas to grammars take only one `items`. */
  #tuple(schema: Node, path: string): Node {
    const key = Array.isArray(schema['prefixItems']) ? 'prefixItems' : 'items';
    const places = schema[key];
    if (!Array.isArray(places) || !this.#mayMove(`${path}/${key}`) || !this.#mayMove(`${path}/items`)) {
      return schema;
    }
    const { prefixItems: _prefix, items, additionalItems, ...rest } = schema;
    const tail = key === 'prefixItems' ? items : additionalItems;
    const distinct = new Map<string, unknown>();
    for (const place of [...(places as unknown[]), ...(isNode(tail) ? [tail] : [])]) {
      distinct.set(JSON.stringify(place), place);
    }
    const kinds = [...distinct.values()];
    if (kinds.length === 0) return rest;
    return {
      ...rest,
      items: kinds.length === 1 ? kinds[0] : this.#nullable({ anyOf: kinds }, `${path}/items`),
    };
  }
}

/** The definition that a root `$ref` names, so that the root itself can say `type: object` and its properties. */
function withoutRootReference(root: Node): Node {
  const { $ref, ...rest } = root;
  const path = localPath($ref);
  if (path === null) return root;
  let target: unknown = root;
  for (const step of path.slice(1).split('/')) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    target = isNode(target) && Object.hasOwn(target, key) ? target[key] : undefined;
  }
  return isNode(target) && target['$ref'] === undefined ? { ...target, ...rest } : root;
}

/**
 * A tool's input schema (MCP, any JSON Schema of an object) as the `parameters` of a chat completion: `type: object`
 * with `properties` and `required` always there. `$defs`, `$ref`, enums, nested types, descriptions and
 * additionalProperties are kept; `title`, `$schema` and `default: null` are dropped; `anyOf: [X, null]` becomes X;
 * tuples become lists; text is as
 * `words` makes it, by default without half surrogate pairs, which no engine can encode. Pure: the input is not changed, parts of it may be shared with the answer.
 */
export function toParameters(
  inputSchema: unknown,
  words: (text: string) => string = safeText,
): Readonly<Record<string, unknown>> {
  const input = reworded(isNode(inputSchema) ? inputSchema : {}, words);
  const walked = new Walk(input).schema(input, '', 0) as Node;
  const root = withoutRootReference(walked);
  const required: unknown = root['required'];
  return {
    ...root,
    type: 'object',
    properties: isNode(root['properties']) ? root['properties'] : {},
    required: Array.isArray(required) ? required.filter((name) => typeof name === 'string') : [],
  };
}
