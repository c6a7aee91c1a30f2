/** Interfaces of what a device keeps for a pipeline: rows of a ReplayBuffer, or steps of a view. */
import type { Stream, Tensor } from '../../device/device.ts';
import type { CheckedRing } from './options.ts';

export interface RingStatistics {
  /**
   * all rows before this one are on the device or were lost. For a TrajectoryBuffer, the number of
   * steps ever added, each of which is copied when it is first drawn
   */
  readonly visible: number;
  /**
   * the oldest row on the device, as an absolute number. For a TrajectoryBuffer, the number of
   * steps that were overwritten
   */
  readonly low: number;
  /** number of rows that the next tick may draw */
  readonly drawable: number;
  /** number of rows that were ever copied whole, and their bytes with padding */
  readonly ingestedRows: number;
  readonly ingestedBytes: number;
  /**
   * number of rows that were added since the first copy and never copied whole. Writers overwrote
   * them before that, or more rows were waiting to be copied than fit into the ring
   */
  readonly droppedRows: number;
}

export interface DeviceStore {
  readonly checked: CheckedRing;
  readonly warnings: readonly string[];
  /** uint8: the tick's rows, one batch for all slots */
  readonly batch: Tensor;
  readonly statistics: RingStatistics;
  /** Enqueues the start of a slot's tick: its draw or gather. */
  draw(stream: Stream, slot: number): void;
}
