/**
 * Encodes keyword arguments for Python. JSON would silently lose some values (NaN, undefined,
 * Maps), so such a value is sent with its kind. A value without an equivalent in Python causes an
 * error that names it. value_of() in hotslot_gymnasium.py decodes the arguments.
 */
import { describeValue } from '../../../base/checks.ts';
import { dtypeOf, type TypedArray } from '../../../base/dtype.ts';
import { typeError } from '../../../base/errors.ts';

type Sent = string | number | boolean | null | readonly Sent[];

/**
 * Returns all arguments in their encoded form. If both objects have an argument of the same name,
 * that of `more` is sent. Throws a TypeError that names an argument that cannot be sent.
 */
export function keywords(kwargs: unknown, more?: unknown): Sent {
  const all = new Map<string, Sent>();
  for (const [name, given] of Object.entries({ kwargs, 'the environment options': more ?? {} })) {
    if (!isPlain(given))
      throw typeError(
        `${name} must be an object of keyword arguments, got ${describeValue(given)}`,
      );
    for (const [key, value] of entriesOf(name, given))
      all.set(key, sent(`${name}: ${key}`, value, [given]));
  }
  return ['dict', [...all]];
}

function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  // In another realm, such as a worker's vm, a plain object has that realm's Object.prototype. Like
  // this realm's, it has no prototype itself.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function entriesOf(name: string, value: object): [string, unknown][] {
  if (Object.getOwnPropertySymbols(value).length > 0)
    throw typeError(`${name} has a symbol as a key: use a string`);
  return Object.entries(value);
}

function sent(name: string, value: unknown, within: readonly object[]): Sent {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number')
    return Number.isFinite(value) && !Object.is(value, -0)
      ? value
      : ['float', Object.is(value, -0) ? '-0.0' : `${value}`];
  if (typeof value === 'bigint')
    return ['int', `${value < 0n ? '-' : ''}${(value < 0n ? -value : value).toString(16)}`];
  if (value === undefined)
    throw typeError(
      `${name} is undefined, which Python lacks; leave it out, or give null for None`,
    );
  if (typeof value !== 'object')
    throw typeError(`${name} is ${describeValue(value)}, which cannot be sent to Python`);
  if (within.includes(value))
    throw typeError(`${name} contains itself, and cannot be sent to Python`);
  const inside = [...within, value];
  const dtype = dtypeOf(value as TypedArray);
  if (dtype !== undefined) {
    const { buffer, byteOffset, byteLength } = value as TypedArray;
    return [dtype, Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength).toString('base64')];
  }
  if (Array.isArray(value))
    return ['list', Array.from(value, (each, i) => sent(`${name}[${i}]`, each, inside))];
  if (value instanceof Map)
    return [
      'dict',
      Array.from(value, ([key, each]) => [
        keyOf(name, key),
        sent(`${name}.${describeValue(key)}`, each, inside),
      ]),
    ];
  if (isPlain(value))
    return [
      'dict',
      entriesOf(name, value).map(([key, each]) => [key, sent(`${name}.${key}`, each, inside)]),
    ];
  throw typeError(
    `${name} is ${describeValue(value)}, which cannot be sent to Python: give plain objects, Maps, arrays, typed arrays, numbers, strings, booleans or null`,
  );
}

function keyOf(name: string, key: unknown): Sent {
  if (typeof key === 'object' && key !== null)
    throw typeError(
      `${name} has ${describeValue(key)} as a key, which a dict of Python cannot have`,
    );
  return sent(`${name}: key ${describeValue(key)}`, key, []);
}
