/**
 * Maps names to the British spelling that the library used before 0.4. Until 0.5, callers may use
 * either name for an option. States, settings and checkpoints use the old names, so that older and
 * newer versions can read them.
 */
import { typeError } from './errors.ts';

/** The old name of each present name. */
const oldNames: Readonly<Record<string, string>> = {
  actorOptimizer: 'actorOptimiser',
  behaviorCloning: 'behaviourCloning',
  criticOptimizer: 'criticOptimiser',
  normalize: 'normalise',
  normalizer: 'normaliser',
  optimizer: 'optimiser',
  temperatureOptimizer: 'temperatureOptimiser',
};
const presentNames = Object.fromEntries(
  Object.entries(oldNames).map(([present, old]) => [old, present]),
);

/** Returns the name of an option or member in states, settings and checkpoints. */
export const savedName = (present: string): string => oldNames[present] ?? present;

/** Returns a copy whose keys are the names in settings and checkpoints. */
export const withSavedNames = <T>(entries: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(Object.entries(entries).map(([key, value]) => [savedName(key), value]));

/**
 * Returns the options of `what` with present names. Returns `options` itself if it has no old name.
 * Throws a TypeError if `options` has both names of one option.
 */
export function withPresentNames<T>(what: string, options: T): T {
  if (typeof options !== 'object' || options === null) return options;
  let renamed: Record<string, unknown> | null = null;
  // Unlike Object.keys(), `for in` allocates nothing if no old name is used.
  for (const key in options) {
    const present = Object.hasOwn(presentNames, key) ? presentNames[key] : undefined;
    if (present === undefined) continue;
    if (present in options)
      throw typeError(
        `${what}: ${key} is the old name of ${present}, and both are given; give ${present} only`,
      );
    const { [key]: value, ...others } = (renamed ?? options) as Record<string, unknown>;
    renamed = { ...others, [present]: value };
  }
  return (renamed ?? options) as T;
}
