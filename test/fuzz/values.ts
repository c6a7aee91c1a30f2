/**
 * Values as trees. What is drawn, changed and made smaller is a description, whose text is the
 * JavaScript that makes the value. So a failing call is printed exactly as it was made, and every
 * try makes fresh values.
 */
import type { Random } from '../../src/index.ts';

export type Value =
  /** an expression, whose names are those of the world */
  | { readonly code: string }
  | { readonly number: number }
  | { readonly object: readonly (readonly [key: string, value: Value])[] }
  | { readonly list: readonly Value[] }
  /** an expression with values in it: `$` is the next value, and `$*` all remaining ones */
  | { readonly form: string; readonly values: readonly Value[] };

/** Draws a value. */
export type Gen = (random: Random) => Value;

/** A call: a form, and its arguments as values. */
export interface Call {
  readonly form: string;
  readonly values: readonly Value[];
}

export const textOf = (value: Value): string => {
  if ('code' in value) return value.code;
  if ('number' in value) return numberText(value.number);
  if ('object' in value) {
    const entries = value.object.map(([key, each]) => `${keyText(key)}: ${textOf(each)}`);
    return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`;
  }
  if ('list' in value) return `[${value.list.map(textOf).join(', ')}]`;
  const left = [...value.values];
  return value.form.replace(/\$\*?/g, (place) =>
    place === '$'
      ? textOf(left.shift() ?? { code: 'undefined' })
      : left.splice(0).map(textOf).join(', '),
  );
};

export const callText = ({ form, values }: Call): string => textOf({ form, values });

const numberText = (value: number): string => {
  if (Object.is(value, -0)) return '-0';
  const power = Math.log2(Math.abs(value));
  return power >= 31 && Number.isInteger(power)
    ? `${value < 0 ? '-(' : ''}2 ** ${power}${value < 0 ? ')' : ''}`
    : String(value);
};
// Written as a plain key, `__proto__` would set the prototype.
const keyText = (key: string) =>
  key === '__proto__' ? "['__proto__']" : /^[A-Za-z_]\w*$/.test(key) ? key : JSON.stringify(key);

export const code = (text: string): Value => ({ code: text });
const simplest: readonly Value[] = ['undefined', '0', "''", '[]', '{}', 'NaN'].map(code);

/**
 * Yields simpler values, the simplest first. Each has a shorter text, or a number nearer to zero.
 */
export function* smaller(value: Value): Generator<Value> {
  const { length } = textOf(value);
  for (const each of simplest) if (textOf(each).length < length) yield each;
  if ('number' in value) {
    const { number } = value;
    if (!Number.isFinite(number) || number === 0) return;
    const nearer = [1, 2, Math.trunc(number), Math.trunc(number / 2), number - Math.sign(number)];
    for (const each of new Set(nearer))
      if (Math.abs(each) < Math.abs(number)) yield { number: each };
    if (number < 0) yield { number: -number };
  }
  if ('object' in value) {
    for (const at of value.object.keys()) yield { object: value.object.toSpliced(at, 1) };
    for (const [at, [key, inner]] of value.object.entries())
      for (const each of smaller(inner)) yield { object: value.object.with(at, [key, each]) };
  }
  if ('list' in value) {
    if (value.list.length > 3) yield { list: value.list.slice(0, value.list.length >> 1) };
    for (const each of fewer(value.list)) yield { list: each };
  }
  if ('form' in value)
    for (const [at, inner] of value.values.entries())
      for (const each of smaller(inner)) yield { ...value, values: value.values.with(at, each) };
}

/** Yields lists in which one value is left out or simpler. */
function* fewer(values: readonly Value[]): Generator<Value[]> {
  for (const at of values.keys()) yield values.toSpliced(at, 1);
  for (const [at, inner] of values.entries())
    for (const each of smaller(inner)) yield values.with(at, each);
}

/**
 * Yields smaller lists of calls: some earlier calls are left out, or the last one has simpler
 * arguments.
 */
export function* smallerCalls(calls: readonly Call[]): Generator<Call[]> {
  const [before, last] = [calls.slice(0, -1), calls.at(-1) as Call];
  for (let size = before.length; size >= 1; size = size >> 1)
    for (let at = 0; at < before.length; at += size) yield [...before.toSpliced(at, size), last];
  for (const values of fewer(last.values)) yield [...before, { ...last, values }];
  if (before.length < 4)
    for (const [at, each] of before.entries())
      for (const values of fewer(each.values)) yield calls.with(at, { ...each, values }) as Call[];
}

/** Draws one of these expressions. */
export const one =
  (...codes: readonly string[]): Gen =>
  (random) => ({ code: codes[random.below(codes.length)] as string });
/** Draws from one of these generators. */
export const either =
  (...gens: readonly Gen[]): Gen =>
  (random) =>
    (gens[random.below(gens.length)] as Gen)(random);
export const whole =
  (low: number, high: number): Gen =>
  (random) => ({ number: low + random.below(high - low + 1) });
export const real =
  (low: number, high: number): Gen =>
  (random) => ({ number: Number(random.between(low, high).toPrecision(3)) });
export const flag = one('true', 'false');
/** Draws an object with all keys of `must` and some of `may`. */
export const record =
  (must: Readonly<Record<string, Gen>>, may: Readonly<Record<string, Gen>> = {}): Gen =>
  (random) => ({
    object: [
      ...Object.entries(must).map(([key, gen]) => [key, gen(random)] as const),
      ...Object.entries(may).flatMap(([key, gen]) =>
        random.below(3) === 0 ? [[key, gen(random)] as const] : [],
      ),
    ],
  });
export const list =
  (gen: Gen, low: number, high: number): Gen =>
  (random) => ({
    list: Array.from({ length: low + random.below(high - low + 1) }, () => gen(random)),
  });
export const tuple =
  (...gens: readonly Gen[]): Gen =>
  (random) => ({ list: gens.map((gen) => gen(random)) });
export const form =
  (text: string, ...gens: readonly Gen[]): Gen =>
  (random) => ({ form: text, values: gens.map((gen) => gen(random)) });
/** Draws a typed array with one of these lengths, sometimes over shared memory. */
export const array =
  (type: string, ...lengths: readonly number[]): Gen =>
  (random) => {
    const length = { number: lengths[random.below(lengths.length)] as number };
    const forms = [
      `new ${type}($)`,
      `new ${type}($).fill($)`,
      `new ${type}(new SharedArrayBuffer($ * ${type}.BYTES_PER_ELEMENT))`,
    ];
    const fill = code(type.startsWith('Big') ? '1n' : '1');
    return {
      form: forms[random.below(8) < 4 ? 0 : 1 + random.below(2)] as string,
      values: [length, fill],
    };
  };
/** Draws `undefined` or a value of `gen`, for optional arguments. */
export const maybe =
  (gen: Gen): Gen =>
  (random) =>
    random.below(3) === 0 ? { code: 'undefined' } : gen(random);
