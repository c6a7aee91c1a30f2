/**
 * The three kinds of rejection. Misuse throws when called (TypeError, RangeError, or an Error whose
 * code starts with ERR_HOTSLOT_STATE_ when the moment is wrong). "Not yet" is a return value and
 * never comes from here. A driver's refusal is a DeviceError. A pipeline that failed throws a
 * PipelineError from every waiter.
 */

/** Every code that a Hotslot error can carry. docs/reference/errors.md lists them with what to do. */
export type ErrorCode =
  | 'ERR_HOTSLOT_ARGUMENT'
  | 'ERR_HOTSLOT_RANGE'
  | 'ERR_HOTSLOT_MEMORY'
  | 'ERR_HOTSLOT_UNKNOWN_DEVICE'
  | 'ERR_HOTSLOT_UNAVAILABLE'
  | 'ERR_HOTSLOT_ADDON'
  | 'ERR_HOTSLOT_COMPILE'
  | 'ERR_HOTSLOT_STALE_HANDLE'
  | 'ERR_HOTSLOT_STATE_CLOSED'
  | 'ERR_HOTSLOT_STATE_BUSY'
  | 'ERR_HOTSLOT_STATE_EMPTY'
  | 'ERR_HOTSLOT_STATE_TICK'
  | 'ERR_HOTSLOT_STATE_CAPTURE'
  | 'ERR_HOTSLOT_STATE_RUNNING'
  | 'ERR_HOTSLOT_STATE_MAIN_THREAD'
  | 'ERR_HOTSLOT_DEVICE'
  | 'ERR_HOTSLOT_PIPELINE'
  | 'ERR_HOTSLOT_THREAD_LOST';

export type CodedError<E extends Error = Error> = E & { code: ErrorCode };

function coded<E extends Error>(error: E, code: ErrorCode): CodedError<E> {
  return Object.assign(error, { code });
}

/** A wrong kind of argument: the rule and the value belong in the text. */
export function typeError(message: string): CodedError<TypeError> {
  return coded(new TypeError(message), 'ERR_HOTSLOT_ARGUMENT');
}

/** An argument of the right kind outside what is allowed. */
export function rangeError(
  message: string,
  code: ErrorCode = 'ERR_HOTSLOT_RANGE',
): CodedError<RangeError> {
  return coded(new RangeError(message), code);
}

/** A right call at a wrong moment: closed, wrong tick, no hot batch. */
export function stateError(what: StateCode, message: string, cause?: unknown): CodedError {
  return coded(
    new Error(message, cause === undefined ? undefined : { cause }),
    `ERR_HOTSLOT_STATE_${what}`,
  );
}
/** Returns the error of an object that was closed before. `next` says what to do. */
export function closedError(what: string, next?: string): CodedError {
  return stateError('CLOSED', `${what} is closed${next === undefined ? '' : `; ${next}`}`);
}
type StateCode = ErrorCode extends infer C
  ? C extends `ERR_HOTSLOT_STATE_${infer W}`
    ? W
    : never
  : never;

/**
 * Returns the error for something that this machine cannot do. The text says why and what would
 * help.
 */
export function unavailableError(
  message: string,
  code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE',
  cause?: unknown,
) {
  return coded(new Error(message, cause === undefined ? undefined : { cause }), code);
}

/** Returns the error of a source that a compiler rejects. The text holds the compiler's output. */
export const compileError = (message: string): CodedError =>
  coded(new Error(message), 'ERR_HOTSLOT_COMPILE');

export interface DeviceErrorDetail {
  family: string;
  /** the driver call that refused */
  call: string;
  status: number;
  statusName: string;
  /** what the user can do next */
  advice: string;
}

/** Returns an error's text. Throws a TypeError for a message that is not a string. */
function text(message: unknown): string {
  if (message !== undefined && typeof message !== 'string')
    throw typeError(`an error's message is a string, got ${typeof message}`);
  return message ?? '';
}
function checkDetail(name: string, detail: unknown): void {
  if (typeof detail !== 'object' || detail === null)
    throw typeError(
      `new ${name}(message, detail) takes an object of details, got ${typeof detail}`,
    );
}

/**
 * A driver's error. It is sticky on its stream: every later record, query or launch throws it.
 * @example
 * try {
 *   await tensor.toArray();
 * } catch (error) {
 *   if (error instanceof DeviceError) console.error(error.call, error.statusName, error.advice);
 * }
 */
export class DeviceError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_DEVICE';
  readonly family: string;
  readonly call: string;
  readonly status: number;
  readonly statusName: string;
  readonly advice: string;
  constructor(message: string, detail: DeviceErrorDetail, options?: ErrorOptions) {
    super(text(message), options);
    checkDetail('DeviceError', detail);
    this.name = 'DeviceError';
    this.family = detail.family;
    this.call = detail.call;
    this.status = detail.status;
    this.statusName = detail.statusName;
    this.advice = detail.advice;
  }
}

/** Managed memory is not available. The text has the reason, and `cause` the earlier error. */
export class UnifiedMemoryUnsupportedError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE';
  constructor(message: string, options?: ErrorOptions) {
    super(text(message), options);
    this.name = 'UnifiedMemoryUnsupportedError';
  }
}

/**
 * compileAllocator() did not finish its probe of managed memory in time. The text names the step
 * that the probe had reached.
 */
export class UnifiedMemoryCompileTimeoutError extends UnifiedMemoryUnsupportedError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnifiedMemoryCompileTimeoutError';
  }
}

/** Makes the error that native code throws: the class follows from the code. */
export function nativeError(code: ErrorCode, text: string, detail: DeviceErrorDetail): Error {
  if (code === 'ERR_HOTSLOT_DEVICE') return new DeviceError(text, detail);
  if (code === 'ERR_HOTSLOT_ARGUMENT') return typeError(text);
  if (
    code === 'ERR_HOTSLOT_RANGE' ||
    code === 'ERR_HOTSLOT_MEMORY' ||
    code === 'ERR_HOTSLOT_UNKNOWN_DEVICE'
  )
    return rangeError(text, code);
  return coded(new Error(text), code);
}

/**
 * A failed pipeline. The first failure wins, and every waiter and later call throws it.
 * @example
 * try {
 *   await pipeline.run({ ticks: 100 });
 * } catch (error) {
 *   if (error instanceof PipelineError) console.error(error.actor, error.tickId, error.cause);
 * }
 */
export class PipelineError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_PIPELINE';
  /** the role that failed, e.g. 'submit' */
  readonly actor: string;
  /** tick the actor was working on, or −1 */
  readonly tickId: number;
  /** slot the actor was working on, or −1 */
  readonly slot: number;
  constructor(
    message: string,
    detail: { actor: string; tickId: number; slot: number; cause?: unknown },
  ) {
    super(text(message), detail?.cause === undefined ? undefined : { cause: detail.cause });
    checkDetail('PipelineError', detail);
    this.name = 'PipelineError';
    this.actor = detail.actor;
    this.tickId = detail.tickId;
    this.slot = detail.slot;
  }
}
