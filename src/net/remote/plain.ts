/** Checks that a value survives JSON unchanged. */
import { typeError } from '../../base/errors.ts';

/**
 * Checks options, which hosts get as JSON. Throws a TypeError if JSON would change a value. Returns
 * the options, or null for undefined.
 */
export function checkPlain(options: unknown): unknown {
  if (options === undefined) return null;
  let text: string | undefined;
  try {
    text = JSON.stringify(options);
  } catch (error) {
    throw typeError(`options must be JSON values: ${(error as Error).message}`);
  }
  const difference =
    text === undefined ? 'options' : differenceIn(options, JSON.parse(text), 'options');
  if (difference !== null) throw typeError(`options must be JSON values: ${difference} is not`);
  return options;
}

/** Returns the path of the first value that JSON changes, or null. */
function differenceIn(before: unknown, after: unknown, path: string): string | null {
  if (typeof before !== 'object' || before === null) return Object.is(before, after) ? null : path;
  if (typeof after !== 'object' || after === null || Array.isArray(before) !== Array.isArray(after))
    return path;
  if (!Array.isArray(before) && Object.getPrototypeOf(before) !== Object.prototype) return path;
  for (const [name, part] of Object.entries(before)) {
    const difference =
      part === undefined
        ? null
        : differenceIn(part, (after as Record<string, unknown>)[name], `${path}.${name}`);
    if (difference !== null) return difference;
  }
  return null;
}
