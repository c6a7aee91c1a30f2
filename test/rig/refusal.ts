/**
 * Errors as values: what a call throws at once, and what a promise rejects with. Both fail when
 * there is no error.
 */
import { expect } from 'chai';
import { DeviceError } from '../../src/index.ts';

export interface Refusal extends Error {
  code?: string;
  status?: number;
  statusName?: string;
}

/** The error that `call` throws before it returns. */
export function refusal(call: () => unknown): Refusal {
  try {
    call();
  } catch (error) {
    return error as Refusal;
  }
  throw new Error('nothing was refused');
}

/**
 * The error that a promise rejects with. Of a call also what it throws before there is a promise.
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
 * `call` is refused by the driver with this status; the refusal names the call `named`, the same on
 * every family.
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
