/**
 * Whether managed memory can be used in this process: probed once, by whichever thread asks first,
 * and stored in the native core, so that every thread gets the same answer. The probe may hang, so
 * it runs in a child process that can be killed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isMainThread } from 'node:worker_threads';
import { answered } from '../../base/addon.ts';
import { checkCount, checkKeys } from '../../base/checks.ts';
import { stateError, UnifiedMemoryCompileTimeoutError } from '../../base/errors.ts';
import { fromPlain, toPlain } from '../../base/plain-error.ts';
import type { DeviceFamily } from '../../device/facts.ts';
import { nativeManaged } from '../../device/native.ts';
import { checkSignal, orAborted } from '../../shm/wait.ts';
import { notStarted, type Outcome, probe, probeSync, type Reasons } from './probe-process.ts';

/** Megatron's UNATTEMPTED, SUCCESS and FAILURE. */
export const CompilationState = Object.freeze({
  unattempted: 'unattempted',
  success: 'success',
  failure: 'failure',
} as const);
export type CompilationState = (typeof CompilationState)[keyof typeof CompilationState];

const TIMEOUT_MS = 30_000;
/** Interval at which a thread checks whether another thread's probe has ended. */
const LOOK_MS = 10;

/** Read once per thread: it never changes. */
let known: Outcome | undefined;

function outcome(text = nativeManaged().probeOutcome()): Outcome | undefined {
  if (known || text === '') return known;
  const { error, reasons } = JSON.parse(text) as { error: unknown; reasons: Reasons };
  known = { error: fromPlain(error) as Outcome['error'], reasons };
  return known;
}

/**
 * Finds out whether managed memory works here, in a child process that is killed after `timeoutMs`
 * milliseconds. The probe runs once per process, so a later call, or one of another thread,
 * resolves with the first one's result. `success` means that the probe ended and reported on every
 * family, even if it reported a reason against one. Rejects only for wrong options (TypeError,
 * RangeError): a failure is a state, see compilationError(). A time-out also emits one process
 * warning (UnifiedMemoryWarning). If `signal` aborts, the call rejects with the signal's reason,
 * and the probe continues.
 *
 * From Megatron's core.inference.unified_memory, where it compiles an allocator. This one compiles
 * nothing.
 */
export async function compileAllocator(
  options: { timeoutMs?: number; signal?: AbortSignal } = {},
): Promise<CompilationState> {
  checkKeys('compileAllocator', options, ['timeoutMs', 'signal']);
  const { timeoutMs = TIMEOUT_MS, signal } = options;
  checkCount('timeoutMs', timeoutMs, 1, 2 ** 31 - 1);
  checkSignal(signal);
  return orAborted(compiled(timeoutMs), signal);
}

async function compiled(timeoutMs: number): Promise<CompilationState> {
  for (;;) {
    const claimed = answered(nativeManaged().claimProbe());
    if (claimed === 'mine') publish(await probe(timeoutMs).catch(notStarted));
    else if (claimed === 'here' || claimed === 'running') await sleep(LOOK_MS);
    else outcome(claimed);
    if (known) return compilationState();
  }
}

/**
 * Probes as compileAllocator() does, and blocks the calling thread until the result is known.
 * Throws if that could never end.
 */
export function compileAllocatorSync(): void {
  while (!known) {
    const claimed = answered(nativeManaged().claimProbe());
    if (claimed === 'mine') publish(probeSync(TIMEOUT_MS));
    else if (claimed === 'here' || (claimed === 'running' && isMainThread))
      throw stateError(
        'BUSY',
        `managed memory is being probed by ${claimed === 'here' ? 'this' : 'another'} thread: await compileAllocator() first`,
      );
    else if (claimed === 'running')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_MS);
    else outcome(claimed);
  }
}

function publish({ error, reasons }: Outcome): void {
  answered(
    nativeManaged().publishProbe(JSON.stringify({ error: error && toPlain(error), reasons })),
  );
  outcome();
  if (error instanceof UnifiedMemoryCompileTimeoutError)
    process.emitWarning(error.message, 'UnifiedMemoryWarning');
}

/** Returns `unattempted` until a probe has ended. The state is equal in every thread. */
export function compilationState(): CompilationState {
  const found = outcome();
  if (!found) return CompilationState.unattempted;
  return found.error ? CompilationState.failure : CompilationState.success;
}

/**
 * Returns why the state is `failure`, or null in any other state. Each thread has an error of its
 * own, with the same text.
 */
export function compilationError(): Error | null {
  return outcome()?.error ?? null;
}

/** Returns why a family has no managed memory as far as the probe knows, or null if it has. */
export function familyReason(family: DeviceFamily): string | null {
  return outcome()?.reasons[family] ?? null;
}
