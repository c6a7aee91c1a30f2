/** Off-policy rows in which each element encodes its own position. */
import type { CriticRows, OffPolicyRows } from '../../src/store/rows/fields.ts';

/** obsDim, actionDim and criticDim of the tests' buffers */
export const D = 3;
export const A = 2;
export const C = 4;

export function count(length: number, from: number): Float32Array {
  return Float32Array.from({ length }, (_, i) => from + i);
}

export function transitions(n: number, from = 0): OffPolicyRows {
  return {
    obs: count(n * D, from),
    nextObs: count(n * D, from + 100),
    actions: count(n * A, from + 200),
    rewards: count(n, from + 300),
    dones: count(n, from + 400),
    truncated: count(n, from + 500),
  };
}

export function withCritic(n: number): OffPolicyRows & CriticRows {
  return { ...transitions(n), critic: count(n * C, 600), nextCritic: count(n * C, 700) };
}

/** floats of a row without a critic */
export const width = 2 * D + A + 3;
