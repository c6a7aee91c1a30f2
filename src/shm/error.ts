/**
 * Encodes errors as bytes that fit into a fixed size of shared memory. Any module may import this
 * file.
 */
import { fromPlain, type PlainError, toPlain } from '../base/plain-error.ts';

/** Maximum characters of an error's name. encodeError() cuts longer names. */
const NAME = 100;

/**
 * Encodes an error as JSON of at most `most` bytes (200 or more). If the JSON is too long, it drops
 * the stack first, then the cause, then the end of the message. Never throws, whatever `error` is,
 * so that readers at least learn that there was an error.
 */
export function encodeError(error: unknown, most: number): Uint8Array {
  const isError = attempt(() => error instanceof Error) ?? false;
  const plain = isError ? attempt(() => toPlain(error) as PlainError) : undefined;
  // decodeError() recognizes an error by its message, so the message must survive JSON. Only a
  // string is sure to do so.
  if (typeof plain?.message === 'string') {
    const { stack: _, ...brief } = plain;
    const { cause: __, ...bare } = brief;
    for (const form of [plain, brief, bare]) {
      const bytes = attempt(() => encode(form));
      if (bytes && bytes.length <= most) return bytes;
    }
  }
  const own = isError ? (error as Error) : { name: 'Error', message: error };
  const name = attempt(() => String(own.name).slice(0, NAME)) ?? 'Error';
  const message = attempt(() => String(own.message)) ?? 'an error that cannot be serialized';
  for (let end = message.length; end > 0; end = Math.floor(end / 2)) {
    const bytes = encode({ name, message: message.slice(0, end) });
    if (bytes.length <= most) return bytes;
  }
  return encode({ name: 'Error', message: '' });
}

const encode = (form: unknown) => new TextEncoder().encode(JSON.stringify(form));

/**
 * Returns the result of `fn`, or undefined if `fn` throws. `fn` throws for a cause that contains
 * itself, for a bigint in JSON, and for a getter that throws.
 */
function attempt<T>(fn: () => T): T | undefined {
  try {
    return fn();
  } catch {
    return undefined;
  }
}

/**
 * Decodes an error. Returns a new object each time, so that the caller may throw it and add to it.
 */
export function decodeError(bytes: Uint8Array): Error {
  // Copies with slice(), because TextDecoder rejects views of shared memory.
  return fromPlain(JSON.parse(new TextDecoder().decode(bytes.slice()))) as Error;
}
