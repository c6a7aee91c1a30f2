/**
 * The three kinds of "no". Misuse throws at the door (TypeError, RangeError, or an Error whose code starts with
 * ERR_HOTSLOT_STATE_ when the moment is wrong); "not yet" is a return value and never comes from here; a driver's
 * refusal is a DeviceError. A pipeline that failed throws a PipelineError from every waiter.
 */

/** Every code a Hotslot error can carry; docs/errors.md lists them with what to do. */
export type ErrorCode =
  | 'ERR_HOTSLOT_ARGUMENT'
  | 'ERR_HOTSLOT_RANGE'
  | 'ERR_HOTSLOT_MEMORY'
  | 'ERR_HOTSLOT_UNKNOWN_DEVICE'
  | 'ERR_HOTSLOT_UNAVAILABLE'
  | 'ERR_HOTSLOT_ADDON'
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
export function rangeError(message: string, code: ErrorCode = 'ERR_HOTSLOT_RANGE'): CodedError<RangeError> {
  return coded(new RangeError(message), code);
}

/** A right call at a wrong moment: closed, wrong tick, no hot batch. */
export function stateError(what: StateCode, message: string, cause?: unknown): CodedError {
  return coded(new Error(message, cause === undefined ? undefined : { cause }), `ERR_HOTSLOT_STATE_${what}`);
}
type StateCode = ErrorCode extends infer C ? (C extends `ERR_HOTSLOT_STATE_${infer W}` ? W : never) : never;

/** Something this machine cannot do; the text says why and what would help. */
export function unavailableError(message: string, code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE', cause?: unknown) {
  return coded(new Error(message, cause === undefined ? undefined : { cause }), code);
}

export interface DeviceErrorDetail {
  family: string;
  /** the driver call that refused */
  call: string;
  status: number;
  statusName: string;
  /** what the user can do next */
  advice: string;
}

/** The driver's no. On a stream it is sticky: it surfaces at the next record, query or launch. */
export class DeviceError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_DEVICE';
  readonly family: string;
  readonly call: string;
  readonly status: number;
  readonly statusName: string;
  readonly advice: string;
  constructor(message: string, detail: DeviceErrorDetail, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DeviceError';
    this.family = detail.family;
    this.call = detail.call;
    this.status = detail.status;
    this.statusName = detail.statusName;
    this.advice = detail.advice;
  }
}

/** There is no managed memory to be had: the text says why, `cause` what went before. */
export class UnifiedMemoryUnsupportedError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_UNAVAILABLE';
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'UnifiedMemoryUnsupportedError';
  }
}

/** compileAllocator() did not hear in time whether there is managed memory. */
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
  if (code === 'ERR_HOTSLOT_RANGE' || code === 'ERR_HOTSLOT_MEMORY' || code === 'ERR_HOTSLOT_UNKNOWN_DEVICE')
    return rangeError(text, code);
  return coded(new Error(text), code);
}

/** A failed pipeline: the first failure wins and every waiter throws it. */
export class PipelineError extends Error {
  readonly code: ErrorCode = 'ERR_HOTSLOT_PIPELINE';
  /** the role that failed, e.g. 'submit' */
  readonly actor: string;
  /** tick the actor was working on, or −1 */
  readonly tickId: number;
  /** slot the actor was working on, or −1 */
  readonly slot: number;
  constructor(message: string, detail: { actor: string; tickId: number; slot: number; cause?: unknown }) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = 'PipelineError';
    this.actor = detail.actor;
    this.tickId = detail.tickId;
    this.slot = detail.slot;
  }
}

/** A value in few words, for an error's text: never its contents. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return value.length > 60 ? `'${value.slice(0, 60)}…'` : `'${value}'`;
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return String(value);
  if (Array.isArray(value)) return `an array of ${value.length}`;
  const { constructor: made, length } = value as { constructor?: { name?: string }; length?: unknown };
  const name = made?.name ?? 'Object';
  if (ArrayBuffer.isView(value)) return `a ${name} of ${typeof length === 'number' ? length : value.byteLength}`;
  return name === 'Object' ? 'an object' : `a ${name}`;
}

/** Throws unless `value` is a whole number ≥ `least` (NaN, fractions, strings and infinities are refused). */
export function checkCount(name: string, value: unknown, least = 1, most = Number.MAX_SAFE_INTEGER): number {
  if (typeof value !== 'number') {
    const text = typeof value === 'string' ? value : shown(value);
    throw typeError(`${name} must be a number, got ${typeof value} (${text})`);
  }
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    const upper = most === Number.MAX_SAFE_INTEGER ? '' : ` and at most ${most}`;
    throw rangeError(`${name} must be a whole number of at least ${least}${upper}, got ${value}`);
  }
  return value;
}

/** Throws a TypeError for a key that is not an option: a misspelt one must not be ignored. */
export function checkKeys(what: string, options: object, known: readonly string[]): void {
  if (typeof options !== 'object' || options === null)
    throw typeError(`${what} takes an options object, got ${shown(options)}`);
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) throw typeError(`${what}: unknown option '${key}'; it takes ${known.join(', ')}`);
  }
}

/** An error as plain data, for another thread: class, message, stack, code, cause and a driver's detail survive. */
export interface PlainError {
  name: string;
  message: string;
  stack?: string | undefined;
  code?: unknown;
  cause?: unknown;
  device?: DeviceErrorDetail;
}

export function toPlain(error: unknown, causes = 8): unknown {
  if (!(error instanceof Error)) return error;
  const { name, message, stack } = error;
  const plain: PlainError = { name, message, stack };
  if ('code' in error) plain.code = error.code;
  // One that holds itself ends somewhere.
  if (error.cause !== undefined && causes > 0) plain.cause = toPlain(error.cause, causes - 1);
  if (error instanceof DeviceError) {
    const { family, call, status, statusName, advice } = error;
    plain.device = { family, call, status, statusName, advice };
  }
  return plain;
}

const classes: Record<string, new (message: string) => Error> = {
  TypeError,
  RangeError,
  UnifiedMemoryUnsupportedError,
  UnifiedMemoryCompileTimeoutError,
};

export function fromPlain(plain: unknown): unknown {
  if (typeof plain !== 'object' || plain === null || !('message' in plain)) return plain;
  const { name, message, stack, code, cause, device } = plain as PlainError;
  const error = device ? new DeviceError(message, device) : new (classes[name] ?? Error)(message);
  Object.assign(error, { name }, stack === undefined ? {} : { stack });
  if (code !== undefined) Object.assign(error, { code });
  if (cause !== undefined) Object.assign(error, { cause: fromPlain(cause) });
  return error;
}
