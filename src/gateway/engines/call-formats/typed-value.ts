import { jsonValue } from './json-text.ts';
import { literalAsJson } from './python-literal.ts';

interface ValueType {
  readonly name: string;
  readonly nullable: boolean;
}

function typeNames(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const { type, anyOf } = schema as { readonly type?: unknown; readonly anyOf?: unknown };
  const named = type !== undefined ? [type].flat() : Array.isArray(anyOf) ? anyOf.flatMap(typeNames) : [];
  return named.flatMap((name) => (typeof name === 'string' ? [name.trim().toLowerCase()] : []));
}

function typeOf(schema: unknown): ValueType {
  const names = typeNames(schema);
  return {
    name: names.find((name) => name !== 'null') ?? names[0] ?? 'string',
    nullable: names.includes('null'),
  };
}

const begins = (name: string, ...starts: readonly string[]): boolean =>
  starts.some((start) => name.startsWith(start));

function numberText(value: string): string | null {
  const text = value.trim().replaceAll(/(?<=\d)_(?=\d)/g, '');
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text)) return null;
  const number = Number(text);
  if (!Number.isFinite(number)) return null;
  return Number.isInteger(number) ? BigInt(number).toString() : String(number);
}

function integerText(value: string): string | null {
  const text = value.trim().replaceAll(/(?<=\d)_(?=\d)/g, '');
  // As many digits as Python reads.
  return /^[+-]?\d{1,4300}$/.test(text) ? BigInt(text.replace('+', '')).toString() : null;
}

/**
 * The JSON of a value that a model wrote as bare text, by its schema, as the engine's parser makes it. What does not fit
 * its type stays a string; JSON in it stays as it was written.
 */
export function typedValueText(value: string, schema: unknown): string {
  const string = JSON.stringify(value);
  const { name, nullable } = typeOf(schema);
  const nothing = /^(?:null|none)$/i.test(value);
  if (nothing && nullable) return 'null';
  if (['string', 'str', 'text', 'varchar', 'char', 'enum'].includes(name)) return string;
  if (nothing) return 'null';
  if (begins(name, 'int', 'uint', 'long', 'short', 'unsigned')) return integerText(value) ?? string;
  if (begins(name, 'num', 'float')) return numberText(value) ?? string;
  if (['boolean', 'bool', 'binary'].includes(name)) return String(value.toLowerCase() === 'true');
  const container = ['object', 'array', 'arr'].includes(name) || begins(name, 'dict', 'list');
  if (container && jsonValue(value) !== undefined) return value.trim();
  return literalAsJson(value) ?? string;
}
