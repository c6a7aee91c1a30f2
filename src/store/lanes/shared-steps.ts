/**
 * Defines the object that describes a trajectory buffer to another thread. Checks that object
 * before the thread attaches the buffer.
 */

import { typeError } from '../../base/errors.ts';
import { checkRoom } from '../../shm/memory.ts';
import type { SharedRateLimiter } from '../rate-limiter.ts';
import { checkNonFinite, type NonFiniteNumbers } from '../rows/field-roles.ts';
import { checkFields } from '../rows/pack-layout.ts';
import { rowsAddon } from '../rows/rows-addon.ts';
import type { StepFields, StepLayout } from './schema.ts';

export const KIND = 'hotslot.TrajectoryBuffer';

/** The object that share() returns and attach() accepts. postMessage sends it as it is. */
export interface SharedTrajectoryBuffer<S extends StepFields = StepFields> {
  readonly kind: typeof KIND;
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
  readonly capacity: number;
  readonly lanes: number;
  readonly layout: StepLayout;
  readonly nonFinite: NonFiniteNumbers;
  readonly limiter: SharedRateLimiter | null;
  /** exists only as a type */
  readonly '~types'?: S;
}

/**
 * Throws unless the header in the shared memory matches the description. Plain reads of the header
 * are enough, because it was written before the memory was first shared, and never again.
 */
export function checkHeader(shared: SharedTrajectoryBuffer): void {
  const { lanes: at } = rowsAddon().layouts;
  checkRoom(shared, at.bytes);
  const header = new DataView(shared.memory, shared.offset);
  const [lanes, placeBytes] = [
    header.getUint32(at.lanes, true),
    header.getUint32(at.placeBytes, true),
  ];
  const capacity = lanes * Number(header.getBigUint64(at.perLane, true));
  if (
    lanes !== shared.lanes ||
    placeBytes !== shared.layout?.placeBytes ||
    capacity !== shared.capacity
  )
    throw typeError(
      `the shared memory holds ${lanes} lanes, ${capacity} places of ${placeBytes} bytes, ` +
        `its description says ${shared.lanes}, ${shared.capacity} and ${shared.layout?.placeBytes}`,
    );
  checkFields(Array.from(shared.layout.fields), placeBytes);
  checkNonFinite(shared.nonFinite);
}
