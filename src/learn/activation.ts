/**
 * Activations of a network, by name here and by number in the kernels (native/kernels/gk.hpp has
 * the same numbers).
 */
import { describeValue } from '../base/checks.ts';
import { typeError } from '../base/errors.ts';

export const activations = { none: 0, relu: 1, tanh: 2 } as const;

/** An activation of an Mlp or of a DQN's network, by name. */
export type Activation = keyof typeof activations;

/** Throws a TypeError naming the value unless it is a known activation. */
export function checkActivation(name: string, value: unknown): Activation {
  if (typeof value !== 'string' || !Object.hasOwn(activations, value)) {
    throw typeError(
      `${name}: unknown activation ${describeValue(value)}; known: ${Object.keys(activations).join(', ')}`,
    );
  }
  return value as Activation;
}
