/**
 * Errors as values: what a call throws, and what a promise rejects with. Both functions throw if
 * there is no error.
 */
import { expect } from 'chai';
import { DeviceError } from '../../src/index.ts';

export interface Refusal extends Error {
  code?: string;
  status?: number;
  statusName?: string;
}

/** Returns the error that `call` throws synchronously. */
export function refusal(call: () => unknown): Refusal {
  try {
    call();
  } catch (error) {
    return error as Refusal;
  }
  throw new Error('nothing was refused');
}

/**
 * Returns the error that a promise rejects with, or that the function throws before it returns a
 * promise.
 */
export async function rejection(act: Promise<unknown> | (() => unknown)): Promise<Refusal> {
  try {
    await (typeof act === 'function' ? act() : act);
  } catch (error) {
    return error as Refusal;
  }
  throw new Error('nothing was rejected');
}

/**
 * Checks that the driver refuses `call` with this status. The error names the call as `named`,
 * which is the same on every family.
 */
export function refusesWith(
  status: number,
  statusName: string,
  call: () => unknown,
  named?: string,
): void {
  const error = refusal(call);
  expect(error, error.message).to.be.instanceOf(DeviceError);
  expect([error.status, error.statusName, error.code]).to.deep.equal([
    status,
    statusName,
    'ERR_HOTSLOT_DEVICE',
  ]);
  expect(error.message).to.include(statusName);
  if (named !== undefined) expect((error as DeviceError).call).to.equal(named);
}
