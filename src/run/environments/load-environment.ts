/** Loads an environment from a user's module. */
import { describeValue } from '../../base/checks.ts';
import { typeError } from '../../base/errors.ts';
import type { AnyEnvironment, EnvironmentContext } from './environment.ts';
import { type EnvironmentSets, isEnvironmentProvider } from './environment-set.ts';

type Make = (context: EnvironmentContext) => AnyEnvironment | Promise<AnyEnvironment>;
/**
 * Makes the environments of a user's module. A function makes one environment at a time, and an
 * EnvironmentSets opens all environments of a thread.
 */
export type EnvironmentMaker = Make | EnvironmentSets;
type Made = new (context: EnvironmentContext) => AnyEnvironment;

/**
 * Loads a user's module and returns its maker of environments. The module's default export is a
 * class, a function that returns an environment or a promise of one, or an opener of sets.
 */
export async function environmentMaker(module: string): Promise<EnvironmentMaker> {
  const { default: made } = (await import(module)) as { default?: Make | Made | EnvironmentSets };
  if (isEnvironmentProvider(made)) return made;
  if (typeof made !== 'function')
    throw typeError(
      `${module} must export an environment's class as its default, or a function that makes one, but it exports ${describeValue(made)}`,
    );
  // Recognizes a class by its source text. A class must be called with `new`, and other functions
  // without it.
  const isClass = /^class\b/.test(Function.prototype.toString.call(made));
  return isClass ? (context) => new (made as Made)(context) : (made as Make);
}
