/**
 * Channels of node:diagnostics_channel that report events of every pipeline in the process to
 * tools. They cost nothing without a subscriber.
 */
import { channel } from 'node:diagnostics_channel';

export const channels = {
  /** `{ pipeline, tick }`: a tick is over, described as in the event `tick` */
  tick: channel('hotslot.tick'),
  /** `{ pipeline, graphs, scalars }`: a learner was captured, as one graph per slot */
  capture: channel('hotslot.capture'),
  /** `{ pipeline, roles, reason }`: a lost thread was replaced */
  restart: channel('hotslot.restart'),
} as const;
