/**
 * Checks arguments at the start of a function. A failed check throws an error whose text has the
 * rule and the value.
 */
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rangeError, typeError } from './errors.ts';

/** Describes a value in a few words for an error's text, without the contents of objects. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string')
    return value.length > 60 ? `'${value.slice(0, 60)}…'` : `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const name = (value as { constructor?: { name?: string } }).constructor?.name ?? 'Object';
  // Uses isView() instead of instanceof. An object that only has a typed array as its prototype
  // would pass instanceof, and reading its `length` would throw.
  if (ArrayBuffer.isView(value))
    return `a ${name} of ${'length' in value ? value.length : value.byteLength}`;
  return name === 'Object' ? 'an object' : `a ${name}`;
}

/**
 * Returns `value`. Throws TypeError if it is not a number. Throws RangeError if it is not a whole
 * number from `least` to `most`, such as NaN, a fraction or Infinity.
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

/** Throws a TypeError for an unknown option, because a misspelled name must not be ignored. */
export function checkKeys(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw typeError(`${what} takes an options object, got ${describeValue(options)}`);
  // Unlike Object.keys(), `for in` allocates nothing. Every sample and view calls this.
  for (const key in options)
    if (!known.includes(key))
      throw typeError(`${what}: unknown option '${key}'; it takes ${known.join(', ')}`);
}

/** The key that the library passes to constructors that only the library may call. */
export const INTERNAL = Symbol('hotslot');

/**
 * Throws a TypeError unless `key` is INTERNAL, which only the library has. `instead` names the
 * function that creates such an object.
 */
export function checkInternal(
  key: unknown,
  what: string,
  instead: string,
): asserts key is typeof INTERNAL {
  if (key !== INTERNAL) throw typeError(`new ${what}() is not for callers: use ${instead}`);
}

/**
 * Returns the absolute path of a path or a file: URL. Throws a TypeError for any other value. Every
 * function that accepts a path calls this before its first await, because the program may change
 * its working directory later.
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
