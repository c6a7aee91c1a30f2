/**
 * Checks of the options that choose what a network computes for a value: one number, or a
 * distribution over atoms.
 */
import { checkCount, checkKeys, describeValue } from '../base/checks.ts';
import { rangeError, typeError } from '../base/errors.ts';
import { checkWithin } from './checks.ts';

/** The atoms of a distribution: `atoms` values, evenly spaced from `min` to `max`. */
export interface Atoms {
  atoms: number;
  min: number;
  max: number;
}

/** Throws unless there are at least two atoms, and min is below max. */
export function checkAtoms(name: string, { atoms, min, max }: Atoms): Atoms {
  checkCount(`${name}.atoms`, atoms, 2, 2 ** 20);
  checkWithin(`${name}.min`, min, -1e30, 1e30);
  checkWithin(`${name}.max`, max, -1e30, 1e30);
  if (!(min < max))
    throw rangeError(`${name}.min must be below ${name}.max, got ${min} and ${max}`);
  return { atoms, min, max };
}

/**
 * Returns the atoms of the option `{ kind: 'categorical' }`, or null for `{ kind: 'scalar' }`.
 * `atoms` is the default number of atoms. `more` names further keys that the categorical kind may
 * have.
 */
export function checkKind(
  name: string,
  given: unknown,
  atoms: number,
  more: readonly string[] = [],
): Atoms | null {
  const kind = (given as { kind?: unknown } | undefined)?.kind;
  if (kind === 'scalar') {
    checkKeys(name, given as object, ['kind']);
    return null;
  }
  if (kind !== 'categorical')
    throw typeError(
      `${name} must be { kind: 'scalar' } or { kind: 'categorical', atoms, min, max }, got ${describeValue(kind ?? given)}`,
    );
  checkKeys(name, given as object, ['kind', 'atoms', 'min', 'max', ...more]);
  const { min, max, ...rest } = given as Partial<Atoms>;
  return checkAtoms(name, { atoms: rest.atoms ?? atoms, min: min as number, max: max as number });
}
