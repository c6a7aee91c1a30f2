/**
 * Parses JSON strictly. Unlike JSON.parse(), it throws for repeated keys, and `__proto__` is an
 * ordinary key. Numbers must be whole and not negative, as in headers of files.
 */
import { describeValue } from '../checks.ts';
import { Scanner } from './scanner.ts';

/** A parsed value. An object is a Map. */
export type Json = string | number | boolean | null | readonly Json[] | ReadonlyMap<string, Json>;

/**
 * Maximum depth of nesting, which no header needs. parseJson() throws for a deeper text, so that
 * its recursion cannot overflow the call stack.
 */
const DEEPEST = 16;

/**
 * Parses a JSON text. Throws a RangeError if the text breaks a rule of this module. The error's
 * text begins with `what`.
 */
export function parseJson(what: string, text: string): Json {
  const scanner = new Scanner(what, text);
  const value = valueNext(scanner, 0);
  scanner.end();
  return value;
}

function valueNext(scanner: Scanner, depth: number): Json {
  if (depth > DEEPEST) scanner.fail(`more than ${DEEPEST} levels`);
  scanner.blanks();
  if (scanner.next === '"') return textNext(scanner);
  if (scanner.took('{')) return objectNext(scanner, depth);
  if (scanner.took('[')) return arrayNext(scanner, depth);
  for (const [word, value] of [
    ['true', true],
    ['false', false],
    ['null', null],
  ] as const)
    if (scanner.word(word)) return value;
  return numberNext(scanner);
}

function objectNext(scanner: Scanner, depth: number): ReadonlyMap<string, Json> {
  const found = new Map<string, Json>();
  if (scanner.took('}')) return found;
  do {
    scanner.blanks();
    const key = textNext(scanner);
    if (found.has(key)) scanner.fail(`the key ${describeValue(key)} is repeated`);
    scanner.expect(':');
    found.set(key, valueNext(scanner, depth + 1));
  } while (scanner.took(','));
  scanner.expect('}');
  return found;
}

function arrayNext(scanner: Scanner, depth: number): readonly Json[] {
  const found: Json[] = [];
  if (scanner.took(']')) return found;
  do found.push(valueNext(scanner, depth + 1));
  while (scanner.took(','));
  scanner.expect(']');
  return found;
}

function textNext(scanner: Scanner): string {
  const quoted = scanner.quoted('"');
  let text: string;
  try {
    text = JSON.parse(quoted) as string;
  } catch {
    scanner.fail(`${describeValue(quoted)} is not a JSON string`);
  }
  if (!text.isWellFormed()) scanner.fail(`${describeValue(quoted)} has half of a surrogate pair`);
  return text;
}

function numberNext(scanner: Scanner): number {
  const written = scanner.whileIn('+-.0123456789eE');
  if (written === '')
    scanner.fail(
      scanner.next === '' ? 'it breaks off' : `${describeValue(scanner.next)} cannot begin a value`,
    );
  const value = Number(written);
  // Accepts only one notation for each number: 1, and not 01, 1.0 or 1e0.
  if (!Number.isSafeInteger(value) || value < 0 || `${value}` !== written)
    scanner.fail(`${describeValue(written)} is not a whole number from 0 to 2⁵³ − 1`);
  return value;
}
