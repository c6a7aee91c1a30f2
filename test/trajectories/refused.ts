/**
 * A list of misuses: the call, the error that it throws, and a part of its text with rule and
 * value.
 */
import { expect } from 'chai';
import { refusal } from '../rig/refusal.ts';

export type Refused = [
  what: string,
  call: () => unknown,
  error: 'TypeError' | 'RangeError',
  text: string,
];

/** Checks that each call throws this kind of error with the kind's code. */
export function refused(cases: readonly Refused[]): void {
  for (const [what, call, name, text] of cases) {
    const error = refusal(call);
    expect(error.message, what).to.include(text);
    expect([error.name, error.code], what).to.deep.equal([
      name,
      name === 'TypeError' ? 'ERR_HOTSLOT_ARGUMENT' : 'ERR_HOTSLOT_RANGE',
    ]);
  }
}
