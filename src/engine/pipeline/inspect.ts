/** Describes a pipeline's state as text for people. */

import { type CoresNow, coresNow } from '../../base/cores.ts';
import type { ReplayBuffer } from '../../store/rows/replay-buffer.ts';
import type { DeviceRows } from '../device-rows/device-rows.ts';
import { Gate } from '../ring/header.ts';
import type { Ring } from '../ring/ring.ts';
import { Field, SlotState } from '../ring/slot.ts';
import { fedBy } from '../trace/feeders.ts';
import type { TraceShape } from '../trace/recorder.ts';
import type { ActorThreads } from './actor-threads.ts';
import type { History } from './history.ts';
import type { CheckedOptions } from './options.ts';
import type { Positions } from './position.ts';
import type { RunControl } from './run-control.ts';
import type { PipelineRuntime } from './runtime.ts';
import type { Slots } from './slots.ts';
import type { BatchSource } from './source.ts';

const stateNames = Object.keys(SlotState) as (keyof typeof SlotState)[];

/** The parts of a pipeline, for the monitor, checkpoints and tests. */
export interface PipelineInternals {
  threads: ActorThreads | null;
  slots: Slots;
  buffer: ReplayBuffer;
  parts: PipelineRuntime;
  history: History;
  options: CheckedOptions;
  /** for checkpoints */
  control: RunControl;
  positions: Positions;
}

export interface SlotNow {
  state: string;
  tick: number;
  sequence: number;
}

/** The result of inspect(). */
export interface PipelineNow {
  slots: SlotNow[];
  /** text that describes what the next batch waits for */
  waitingFor: string;
  /** ticks whose slots are free again */
  finished: number;
  cores: CoresNow;
}

export const pipelineNow = (ring: Ring, waitingFor: string): PipelineNow => ({
  slots: slotsNow(ring),
  waitingFor,
  finished: ring.finished,
  cores: coresNow(),
});

export function slotsNow(ring: Ring): SlotNow[] {
  return Array.from({ length: ring.depth }, (_, slot) => ({
    state: stateNames[ring.state(slot)] as string,
    tick: ring.record(slot)[Field.tick] as number,
    sequence: ring.sequence(slot),
  }));
}

/** Returns the facts about a pipeline's rows that a trace records. */
export const traceShape = (slots: Slots, { source, baseSeed }: CheckedOptions): TraceShape => ({
  bytes: slots.plan.bytes,
  names: source.names,
  baseSeed,
});

/** The options on which the texts about waiting depend. */
type Sources = Pick<CheckedOptions, 'source' | 'group'>;

/**
 * Returns as text what the next request waits for. If it waits for rows of other machines, the text
 * includes the state of those machines.
 */
export function waitingFor(
  gate: Gate,
  { source, group }: Sources,
  rows: DeviceRows | null,
): string {
  const words = standsFor(gate, { source, group }, rows);
  const others =
    gate === Gate.limiter || gate === Gate.rows ? fedBy(source.buffer.share().memory) : null;
  return others === null || words === 'nothing' ? words : `${words}; ${others}`;
}

/**
 * Returns as text what the pipeline itself waits for, without the state of other machines. The text
 * changes only if the pipeline waits for something else.
 */
export function standsFor(gate: Gate, { source, group }: Sources, rows: DeviceRows | null): string {
  // While a pipeline waits for other learners, only that is reported.
  return group?.waitingFor() || controlWords(gate, source, rows);
}

function controlWords(gate: Gate, source: BatchSource, rows: DeviceRows | null): string {
  switch (gate) {
    case Gate.open:
      return 'nothing';
    case Gate.limiter:
      return source.buffer.limiter?.waitingFor(source.rows) ?? 'nothing';
    case Gate.slots:
      return 'the learner: every slot is in use';
    case Gate.rows:
      return rows === null
        ? source.waitingFor()
        : `rows: ${source.buffer.ptr} added, ${rows.statistics.ingestedRows} copied to the device`;
    case Gate.nothingAsked:
      return 'a request for a tick';
    case Gate.paused:
      return 'the next run';
  }
}
