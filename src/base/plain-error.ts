/** Converts errors to plain data and back, for messages and shared memory between threads. */
import {
  DeviceError,
  type DeviceErrorDetail,
  UnifiedMemoryCompileTimeoutError,
  UnifiedMemoryUnsupportedError,
} from './errors.ts';

/** An error as plain data for another thread. `device` has the details of a DeviceError. */
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
  // The limit ends a chain of causes that contains a cycle.
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

/**
 * Returns `thrown` if it is an Error. Otherwise returns a new Error with its text, and with it as
 * `cause`.
 */
export const errorOf = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown), { cause: thrown });
