/** A pipeline's rows that a device keeps, however it draws them. */
import type { Stream, Tensor } from '../../device/device.ts';
import type { CheckedRing } from './options.ts';

export interface RingStatistics {
  /**
   * rows before it are on the device, or were lost. For a TrajectoryBuffer, steps ever added: each
   * goes there when it is first drawn
   */
  readonly visible: number;
  /** the oldest row that is there, absolute, or for a TrajectoryBuffer how many steps are gone */
  readonly low: number;
  /** rows that the next tick may draw */
  readonly drawable: number;
  /** rows that were ever copied and came whole, and their bytes with what fills their strides up */
  readonly ingestedRows: number;
  readonly ingestedBytes: number;
  /**
   * rows that were added since and never copied whole: writers overwrote them before, or went on
   * for more than the ring has
   */
  readonly droppedRows: number;
}

export interface DeviceStore {
  readonly checked: CheckedRing;
  readonly warnings: readonly string[];
  /** uint8: the tick's rows, one batch for all slots */
  readonly batch: Tensor;
  readonly statistics: RingStatistics;
  /** Enqueues what a slot's tick begins with. */
  draw(stream: Stream, slot: number): void;
}
