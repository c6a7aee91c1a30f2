/** Checks a backend's arguments against its slots, before the call has any side effect. */
import { describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import { isShared } from '../../shm/memory.ts';
import { Tensor } from '../device.ts';

/** Throws unless there is one view per slot, each over shared memory. */
export function checkHostSlots(slots: readonly Uint8Array[], depth: number): void {
  if (!Array.isArray(slots))
    throw typeError(`registerHostSlots takes an array of Uint8Array, got ${describeValue(slots)}`);
  if (slots.length !== depth)
    throw rangeError(`registerHostSlots needs ${depth} slots, got ${slots.length}`);
  for (const [i, view] of slots.entries()) {
    if (!(view instanceof Uint8Array))
      throw typeError(`host slot ${i} must be a Uint8Array, got ${typeof view}`);
    if (!isShared(view.buffer)) throw typeError(`host slot ${i} must be in a SharedArrayBuffer`);
    if (view.length === 0) throw rangeError(`host slot ${i} is empty`);
  }
}

/**
 * Throws unless `src` begins at the start of the slot's host buffer and `dst` at the start of its
 * device buffer. Their numbers of bytes must be equal.
 */
export function checkCopy(
  { slot, src, dst }: { slot: number; src: Uint8Array; dst: Tensor },
  host: Uint8Array,
  device: Tensor,
): void {
  const inside =
    src instanceof Uint8Array && src.buffer === host.buffer && src.byteOffset === host.byteOffset;
  if (!inside || src.length > host.length) {
    const got =
      src instanceof Uint8Array
        ? `${src.length} bytes at ${src.byteOffset} of another memory`
        : typeof src;
    throw typeError(
      `source must be slot ${slot}'s registered host memory from its start (${host.length} bytes), got ${got}`,
    );
  }
  if (!(dst instanceof Tensor)) throw typeError(`destination must be a tensor, got ${typeof dst}`);
  if (dst.handle !== device.handle || dst.byteOffset !== 0) {
    throw typeError(
      `destination must be slot ${slot}'s tensor on ${device.device.name}, got one on ${dst.device.name}`,
    );
  }
  if (!dst.contiguous)
    throw typeError(`destination must be contiguous, got strides [${dst.strides}]`);
  if (dst.bytes !== src.length)
    throw rangeError(
      `source has ${src.length} bytes, destination ${dst.bytes}: they must be equal`,
    );
}
