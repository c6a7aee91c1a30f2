/** An error as bytes that fit into a place in shared memory. Any module may import it. */
import { fromPlain, type PlainError, toPlain } from '../base/plain-error.ts';

/** Longer names are cut. */
const NAME = 100;

/**
 * Encodes an error as JSON of at most `most` bytes (200 or more): it drops the stack first, then
 * the cause, then the end of the message. Never throws, whatever was thrown, so that readers learn
 * at least that there was an error.
 */
export function encodeError(error: unknown, most: number): Uint8Array {
  const isError = attempt(() => error instanceof Error) ?? false;
  const plain = isError ? attempt(() => toPlain(error) as PlainError) : undefined;
  // Its reader knows an error by its message, which has to get through JSON.
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
 * Returns undefined if `fn` throws: for a cause that holds itself, a bigint in JSON, a getter that
 * throws.
 */
function attempt<T>(fn: () => T): T | undefined {
  try {
    return fn();
  } catch {
    return undefined;
  }
}

/** Returns a new error each time, so that its thrower may add to it. */
export function decodeError(bytes: Uint8Array): Error {
  // slice(): TextDecoder refuses views of shared memory.
  return fromPlain(JSON.parse(new TextDecoder().decode(bytes.slice()))) as Error;
}
