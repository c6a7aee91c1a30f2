/**
 * Activations of a network: the name of each, and its number in the kernels
 * (native/kernels/gk.hpp).
 */
import { describeValue } from '../base/checks.ts';
import { typeError } from '../base/errors.ts';

export const activations = { none: 0, relu: 1, tanh: 2 } as const;

/** Name of an activation of an Mlp or of a DQN's network. */
export type Activation = keyof typeof activations;

/** Returns `value` if it is a known activation, else throws a TypeError that names it. */
export function checkActivation(name: string, value: unknown): Activation {
  if (typeof value !== 'string' || !Object.hasOwn(activations, value)) {
    throw typeError(
      `${name}: unknown activation ${describeValue(value)}; known: ${Object.keys(activations).join(', ')}`,
    );
  }
  return value as Activation;
}
