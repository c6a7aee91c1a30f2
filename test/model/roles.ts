/**
 * The roles, in the order of a slot's life. Each role ends by ringing the thread of the role that
 * owns the slot next.
 */
import { type State, Violation } from './checker.ts';
import * as memory from './memory.ts';
import {
  COMPUTE_STREAM,
  COPY_STREAM,
  enqueue,
  event,
  Local,
  position,
  queued,
  Slot,
  work,
} from './memory.ts';
import { BLOCKED, type Label, type Program } from './program.ts';
import type { Ring, Setup } from './setup.ts';
import { type Act, NONE, Stage } from './stage.ts';

export type Role = 'pack' | 'submit' | 'poll' | 'replay';

type Emit = (by: Program, setup: Setup, ring: Ring) => void;

/**
 * Moves a request into the next free slot. The header holds the request's sequence, so a request
 * cannot be moved twice.
 */
const requester: Emit = (by, setup) => {
  const stage = new Stage(by, setup, Slot.free);
  const cleared = setup.broken === 'the requester clears the header after it stores Requested';
  const clearedFirst =
    setup.broken === 'the requester clears the header before it stores Requested';
  const asked = (state: State, sequence: number): boolean => {
    if (!setup.client)
      return sequence < setup.ticks && (!setup.gated || state[memory.ROWS]! > sequence);
    return cleared || clearedFirst ? state[memory.HEADER] !== 0 : state[memory.HEADER]! > sequence;
  };
  const write: Act = (state, sequence) => {
    state[memory.RECORD + (sequence % setup.depth)] = setup.client
      ? state[memory.HEADER]!
      : sequence + 1;
    if (clearedFirst) state[memory.HEADER] = 0;
  };
  stage.look('writes the request into its record', write, asked);
  stage.store('Requested');
  if (cleared) stage.also('clears the header', (state) => (state[memory.HEADER] = 0));
  stage.end();
};

const pack: Emit = (by, setup, ring) => {
  const stage = new Stage(by, setup, Slot.requested);
  const rows: Act = (state, sequence) => {
    const slot = sequence % setup.depth;
    memory.own(state, setup.depth, sequence, Slot.requested, 'the host buffer');
    if (state[memory.RECORD + slot] !== sequence + 1)
      throw new Violation('Slot-3', `${sequence} got another tick's request`);
    if (queued(state, setup.depth, COPY_STREAM, sequence, 1))
      throw new Violation('Slot-5', `a copy reads ${sequence}'s rows`);
    state[memory.HOST + slot] = sequence + 1;
  };
  const late = setup.broken === 'pack stores Packed before it writes the rows';
  stage.look('packs the rows', late ? NONE : rows);
  if (setup.broken === 'pack rings the bell before it stores the state') ring('pack', 'submit');
  stage.store('Packed', late ? rows : undefined);
  if (setup.broken !== 'pack rings the bell before it stores the state') ring('pack', 'submit');
  stage.end();
};

const submit: Emit = (by, setup, ring) => {
  const stage = new Stage(by, setup, Slot.packed);
  const copy: Act = (state, sequence) => {
    const reads = queued(state, setup.depth, COMPUTE_STREAM, sequence, 1);
    if (reads)
      throw new Violation(
        'Slot-5',
        `a graph still reads the device buffer that ${sequence} is copied to`,
      );
    enqueue(state, COPY_STREAM, work(sequence));
  };
  const copied: Act = (state, sequence) => enqueue(state, COPY_STREAM, event(sequence));
  const late = setup.broken === 'submit stores Submitted before it records the event';
  const swapped = setup.broken === 'submit records the event before it enqueues the copy';
  stage.look(`enqueues the ${swapped ? 'event' : 'copy'}`, swapped ? copied : copy);
  if (!late) stage.also(`enqueues the ${swapped ? 'copy' : 'event'}`, swapped ? copy : copied);
  stage.store('Submitted', late ? copied : undefined);
  ring('submit', 'poll');
  stage.end();
};

const poll: Emit = (by, setup, ring) => {
  const { depth } = setup;
  const done = (stream: number): ((state: State, sequence: number) => boolean) => {
    return (state, sequence) => !queued(state, depth, stream, sequence, 0);
  };
  // Sets the bit that decides how the thread parks. The bit has no meaning if the round found work.
  const pending: Act = (state) => {
    if (!(state[bell]! & Local.did)) state[bell] = state[bell]! | Local.pending;
  };
  const bell = memory.BELL + by.agent;
  const copied = new Stage(by, setup, Slot.submitted);
  copied.look('finds its copy done', NONE, done(COPY_STREAM), pending);
  copied.store('Ready');
  if (!setup.client) ring('poll', 'replay');
  else ring('poll', 'client');
  copied.end();

  const spent = new Stage(by, setup, Slot.replaying);
  const late = setup.broken === 'poll stores Free before it writes the journal';
  const hasty = setup.broken === 'poll stores Free before the device is done';
  const journal: Act = (state, sequence) => {
    const bit = 1 << sequence;
    if (state[memory.RECORD + (sequence % depth)] !== sequence + 1)
      throw new Violation('Slot-2', `${sequence}'s record is gone`);
    if (!hasty && !(state[memory.APPLIED]! & bit))
      throw new Violation('Slot-5', `${sequence} is journaled before it is applied`);
    if (state[memory.JOURNAL]! & bit && !state[memory.DIED])
      throw new Violation('Slot-8', `${sequence} is journaled twice`);
    state[memory.JOURNAL] = state[memory.JOURNAL]! | bit;
  };
  const freed = hasty ? () => true : done(COMPUTE_STREAM);
  spent.look('finds the device done and writes the journal', late ? NONE : journal, freed, pending);
  spent.store('Free', late ? journal : undefined);
  ring('poll', 'pack');
  if (setup.client) ring('poll', 'client');
  spent.end();
};

const replay: Emit = (by, setup, ring) => {
  const stage = new Stage(by, setup, Slot.ready);
  const bell = memory.BELL + by.agent;
  const swapped = setup.broken === 'replay records `spent` before it launches the graph';
  const spent: Act = (state, sequence) => enqueue(state, COMPUTE_STREAM, event(sequence));
  const graph: Act = (state, sequence) => {
    // Slot-8: the predecessor has launched this slot, so it is not launched again.
    if (state[bell]! & Local.skip) state[bell] = state[bell]! & ~Local.skip;
    else launch(state, setup.depth, sequence);
  };
  stage.look(swapped ? 'records the spent event' : 'launches the graph', swapped ? spent : graph);
  stage.also(swapped ? 'launches the graph' : 'records the spent event', swapped ? graph : spent);
  stage.store('Replaying');
  ring('replay', 'poll');
  stage.end();
};

export function launch(state: State, depth: number, sequence: number): void {
  memory.own(state, depth, sequence, Slot.ready, 'the device buffer');
  if (queued(state, depth, COPY_STREAM, sequence, 0))
    throw new Violation('Slot-2', `${sequence} is launched before its copy`);
  enqueue(state, COMPUTE_STREAM, work(sequence));
}

/**
 * Slot-8: a successor waits until the device has finished the predecessor's launches, then reads
 * the slot's mark. It waits by queries and checks the stop word meanwhile, because a device may
 * hang.
 */
export function takeOverReplay(by: Program, setup: Setup, end: Label): void {
  const { broken } = setup;
  const bell = memory.BELL + by.agent;
  by.step('drains the stream and reads the mark', (state, next) => {
    if (state[memory.STOP] && broken !== 'a successor ignores a stop while it drains the stream') {
      state[bell] = 0;
      return end.at;
    }
    const drained =
      memory.isIdle(state, COMPUTE_STREAM) ||
      broken === 'a successor reads the mark before it drains the stream';
    if (!drained) return BLOCKED;
    const seen = state[memory.MARK] === position(state, setup.depth, Slot.ready) + 1;
    if (seen && broken !== 'a successor ignores the launch mark')
      state[bell] = state[bell]! | Local.skip;
    return next;
  });
}

/** The requester has no placement of its own: it always runs on pack's thread. */
export const roles: Record<Role, Emit> = {
  pack: (by, setup, ring) => {
    requester(by, setup, ring);
    pack(by, setup, ring);
  },
  submit,
  poll,
  replay,
};
