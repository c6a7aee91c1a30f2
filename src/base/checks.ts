/**
 * Checks of arguments, which throw when a function is called, with the rule and the value in the
 * text.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rangeError, typeError } from './errors.ts';

/** Describes a value in few words, for an error's text: never its contents. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string')
    return value.length > 60 ? `'${value.slice(0, 60)}…'` : `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const name = (value as { constructor?: { name?: string } }).constructor?.name ?? 'Object';
  // By isView(): to the engine, an object that only inherits from a typed array has no length.
  if (ArrayBuffer.isView(value))
    return `a ${name} of ${'length' in value ? value.length : value.byteLength}`;
  return name === 'Object' ? 'an object' : `a ${name}`;
}

/**
 * Throws unless `value` is a whole number ≥ `least` (NaN, fractions, strings and infinities are
 * refused).
 */
export function checkCount(
  name: string,
  value: unknown,
  least = 1,
  most = Number.MAX_SAFE_INTEGER,
): number {
  if (typeof value !== 'number') {
    const text = typeof value === 'string' ? value : describeValue(value);
    throw typeError(`${name} must be a number, got ${typeof value} (${text})`);
  }
  if (!(Number.isSafeInteger(value) && value >= least && value <= most)) {
    const upper = most === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${most}`;
    throw rangeError(`${name} must be a whole number of at least ${least}${upper}, got ${value}`);
  }
  return value;
}

/** Throws a TypeError unless `value` is true or false. */
export function checkFlag(name: string, value: unknown): asserts value is boolean {
  if (typeof value !== 'boolean')
    throw typeError(`${name} must be a boolean, got ${describeValue(value)}`);
}

/** Throws a TypeError for a key that is not an option: a misspelt one must not be ignored. */
export function checkKeys(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw typeError(`${what} takes an options object, got ${describeValue(options)}`);
  // Unlike Object.keys() this makes no garbage: samples and views come by here.
  for (const key in options)
    if (!known.includes(key))
      throw typeError(`${what}: unknown option '${key}'; it takes ${known.join(', ')}`);
}

/** The key that the library gives to constructors that callers may not use. */
export const INTERNAL = Symbol('hotslot');

/** Throws a TypeError unless the library itself calls. `instead` is what makes such an object. */
export function checkInternal(
  key: unknown,
  what: string,
  instead: string,
): asserts key is typeof INTERNAL {
  if (key !== INTERNAL) throw typeError(`new ${what}() is not for callers: use ${instead}`);
}

/**
 * Returns the absolute path of a path or a file: URL. Every function that accepts a path calls this
 * before it awaits anything: a program that changes its folder later still means the file that it
 * named. Throws a TypeError for any other value.
 */
export function checkPath(what: string, path: string | URL): string {
  if (path instanceof URL) {
    try {
      return fileURLToPath(path);
    } catch (error) {
      throw typeError(`${what} takes a path or a file: URL: ${(error as Error).message}`);
    }
  }
  if (typeof path !== 'string' || path === '' || path.includes('\0'))
    throw typeError(`${what} takes a path or a file: URL, got ${describeValue(path)}`);
  return resolve(path);
}
