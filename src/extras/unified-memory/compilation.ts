/**
 * Finds out whether this process can use managed memory. The first thread that asks runs the probe.
 * The native core stores the outcome, so that every thread gets the same answer. The probe may
 * hang, so it runs in a child process, which this process can kill.
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

/** States of the probe. Megatron names them UNATTEMPTED, SUCCESS and FAILURE. */
export const CompilationState = Object.freeze({
  unattempted: 'unattempted',
  success: 'success',
  failure: 'failure',
} as const);
export type CompilationState = (typeof CompilationState)[keyof typeof CompilationState];

const TIMEOUT_MS = 30_000;
/** Interval in ms at which a thread checks whether a probe under way has ended. */
const LOOK_MS = 10;

/** The outcome, after this thread has read it from the native core. It never changes. */
let known: Outcome | undefined;

function outcome(text = nativeManaged().probeOutcome()): Outcome | undefined {
  if (known || text === '') return known;
  const { error, reasons } = JSON.parse(text) as { error: unknown; reasons: Reasons };
  known = { error: fromPlain(error) as Outcome['error'], reasons };
  return known;
}

/**
 * Probes managed memory in a child process, and kills it after `timeoutMs` milliseconds. The probe
 * runs once per process. Later calls, from any thread, resolve with the first result.
 *
 * `success` means that the probe ended and reported on every family, even if a family has no
 * managed memory.
 *
 * Rejects for wrong options (TypeError, RangeError). A failed probe does not reject: the call
 * resolves with `failure`, and compilationError() returns the error. A time-out also emits a
 * process warning (UnifiedMemoryWarning). If `signal` aborts, the call rejects with the signal's
 * reason, and the probe continues.
 *
 * The name is Megatron's, from core.inference.unified_memory. Megatron's function compiles an
 * allocator, and this function compiles nothing.
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
 * Probes like compileAllocator(), and blocks the calling thread until the outcome is known. Throws
 * ERR_HOTSLOT_STATE_BUSY if a probe of this thread is under way. On the main thread, throws it for
 * a probe of any thread.
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

/** Returns the probe's state, which is `unattempted` until it ends. All threads share the state. */
export function compilationState(): CompilationState {
  const found = outcome();
  if (!found) return CompilationState.unattempted;
  return found.error ? CompilationState.failure : CompilationState.success;
}

/**
 * Returns the probe's error if the state is `failure`, else null. Each thread has its own Error
 * object with the same text.
 */
export function compilationError(): Error | null {
  return outcome()?.error ?? null;
}

/** Returns the probe's reason why a family has no managed memory, or null without such a reason. */
export function familyReason(family: DeviceFamily): string | null {
  return outcome()?.reasons[family] ?? null;
}
