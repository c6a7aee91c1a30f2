/**
 * Defines Hotslot's errors. Misuse throws a TypeError or a RangeError. A call at the wrong time
 * throws an Error whose code starts with ERR_HOTSLOT_STATE_. An error of a driver is a DeviceError.
 * After a pipeline has failed, every waiter throws a PipelineError. "Not ready yet" is a return
 * value, and not an error.
 */

/** Every code of a Hotslot error. docs/reference/errors.md lists the codes with their remedies. */
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

/**
 * Returns the error for an argument of a wrong type. `message` must have the rule and the value.
 */
export function typeError(message: string): CodedError<TypeError> {
  return coded(new TypeError(message), 'ERR_HOTSLOT_ARGUMENT');
}

/** Returns the error for an argument of the right type whose value is not allowed. */
export function rangeError(
  message: string,
  code: ErrorCode = 'ERR_HOTSLOT_RANGE',
): CodedError<RangeError> {
  return coded(new RangeError(message), code);
}

/** Returns the error for a call at the wrong time, such as a call on a closed object. */
export function stateError(what: StateCode, message: string, cause?: unknown): CodedError {
  return coded(
    new Error(message, cause === undefined ? undefined : { cause }),
    `ERR_HOTSLOT_STATE_${what}`,
  );
}
/** Returns the error for a use of a closed object. `next` is the advice at the text's end. */
export function closedError(what: string, next?: string): CodedError {
  return stateError('CLOSED', `${what} is closed${next === undefined ? '' : `; ${next}`}`);
}
type StateCode = ErrorCode extends infer C
  ? C extends `ERR_HOTSLOT_STATE_${infer W}`
    ? W
    : never
  : never;

/**
 * Returns the error for something that this machine cannot do. `message` must have the reason and a
 * remedy.
 */
export function unavailableError(
  message: string,
  code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE',
  cause?: unknown,
) {
  return coded(new Error(message, cause === undefined ? undefined : { cause }), code);
}

/** Returns the error for a source that does not compile. `message` has the compiler's output. */
export const compileError = (message: string): CodedError =>
  coded(new Error(message), 'ERR_HOTSLOT_COMPILE');

export interface DeviceErrorDetail {
  family: string;
  /** name of the driver call that failed */
  call: string;
  status: number;
  statusName: string;
  /** what the user can do next */
  advice: string;
}

/** Returns an error's message, '' if omitted. Throws a TypeError if it is not a string. */
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
 * The error of a driver. The stream on which it happened stays failed: every later record, query or
 * launch on that stream throws it again.
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

/** The error if managed memory is not available. The text has the reason. */
export class UnifiedMemoryUnsupportedError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE';
  constructor(message: string, options?: ErrorOptions) {
    super(text(message), options);
    this.name = 'UnifiedMemoryUnsupportedError';
  }
}

/**
 * The error if compileAllocator() did not finish its probe of managed memory in time. The text
 * names the step that the probe had reached.
 */
export class UnifiedMemoryCompileTimeoutError extends UnifiedMemoryUnsupportedError {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnifiedMemoryCompileTimeoutError';
  }
}

/** Returns the error that native code throws. `code` determines the class. */
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
 * The error of a failed pipeline. Every waiter and every later call throws the pipeline's first
 * failure.
 * @example
 * try {
 *   await pipeline.run({ ticks: 100 });
 * } catch (error) {
 *   if (error instanceof PipelineError) console.error(error.actor, error.tickId, error.cause);
 * }
 */
export class PipelineError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_PIPELINE';
  /** role of the actor that failed, such as 'submit' */
  readonly actor: string;
  /** tick that the actor worked on, or −1 */
  readonly tickId: number;
  /** slot that the actor worked on, or −1 */
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
