/**
 * Models the updates of priorities. Before pack draws sequence s, it applies what the update of s −
 * depth gave. That holds in a run, over a pause and after deaths, and close() applies the rest. One
 * thread submits, launches and polls. Interleavings of these actors are left to the ring's own
 * model (protocol.ts).
 */
import { checkStop, markDone, park, readBell, ring } from './bell.ts';
import type { Model, Move, State } from './checker.ts';
import * as words from './memory.ts';
import {
  Agent,
  BELL,
  COMPUTE_STREAM,
  enqueue,
  event,
  handOn,
  isAt,
  Local,
  position,
  queued,
  Slot,
  work,
} from './memory.ts';
import { BLOCKED, NATIVE, Program } from './program.ts';
import { deathsOf } from './thread.ts';
import { asks } from './updates-client.ts';
import * as memory from './updates-memory.ts';
import { type Rings, step } from './updates-memory.ts';
import { PackThread } from './updates-pack.ts';

export interface UpdatesSetup extends memory.Updates {
  depth: 1 | 2 | 3;
  /** the sequences before which the two runs end */
  ticks: readonly [number, number];
  /**
   * What happens to the steps, a letter each: `+` adds some, `-` clears all. The last letter is
   * `+`.
   */
  steps?: string;
  /**
   * `abort`: the client ends a run, or closes, at any moment; `death`: a thread dies at any moment
   * and has a successor
   */
  faults?: readonly ('abort' | 'death')[];
  broken?: UpdatesMutation;
}

export type UpdatesMutation =
  | 'pack applies the update after the draw'
  | 'pack records an applied update by a later store'
  | 'pack records an applied update by an earlier store'
  | 'a successor derives the applied count from the slots'
  | 'pack applies an update one sequence early'
  | 'poll stores Free before it fetches the priorities'
  | 'poll does not fetch the priorities of manual ticks'
  | 'replay records `spent` before the readback of priorities'
  | 'pack does not reset the priorities of the slot'
  | 'pack takes back the oldest request first'
  | 'pack takes back a request to the next sequence'
  | 'the requester takes back a request during its batch'
  | 'pack takes back a request during the run'
  | 'the client takes back the requests of pack'
  | 'pack does not ring the client after it takes back a request'
  | 'the client begins a run before the pause is answered'
  | 'the client begins a run before every slot is Free'
  | 'close() applies updates a second time'
  | 'close() applies the newest update first'
  | 'close() ignores slots that are Requested'
  | 'close() applies no update'
  | 'close() does not wait until the threads end'
  | 'close() does not drain the device';

export function updatesProtocol(setup: UpdatesSetup): Model {
  const { depth, steps = '+', faults = [] } = setup;
  const pack = new Program('pack', 0, 'hand-over');
  const rest = new Program('submit+replay+poll', 1, 'hand-over');
  const client = new Program('client', Agent.client, 'hand-over');
  const device = new Program('the device', Agent.compute, 'hand-over');
  const collector = new Program('collector', Agent.collector, 'hand-over');
  const rings = (by: Program) => (to: Program) => ring(by, to);

  new PackThread(pack, setup, rings(pack), [rest, client]);
  others(rest, setup, rings(rest), pack, client);
  works(device, setup, rest);
  const aborts = asks(client, setup, rings(client), pack, rest);
  for (const letter of steps) {
    collector.step(letter === '+' ? 'adds steps' : 'clears the steps', (state, next) => {
      state[memory.FILLED] = letter === '+' ? 1 : 0;
      return next;
    });
    if (letter === '+') ring(collector, pack);
  }
  collector.end();

  const agents = [pack, rest, client, device, collector];
  const moves: Move[] = agents.map((agent) => ({
    optional: false,
    says: (state) => `${agent.name} ${agent.current(state).says}`,
    apply: (state) => agent.advance(state),
  }));
  if (faults.includes('abort')) moves.push(...aborts);
  if (faults.includes('death')) moves.push(...deathsOf(pack), ...deathsOf(rest));

  return {
    width: words.WIDTH,
    moves,
    start: (state) => {
      state.fill(0);
      words.initSlots(state, depth);
    },
    unfinished: (state) => {
      if (client.current(state).end) return null;
      const where = agents.map((agent) => `${agent.name} ${agent.current(state).says}`).join(', ');
      return `${words.slotsInWords(state, depth)}; ${where}`;
    },
  };
}

/**
 * The actors after pack: they launch packed batches, fetch the priorities from host memory, and
 * free the slot.
 */
function others(
  by: Program,
  { depth, broken, manual = [] }: UpdatesSetup,
  rings: Rings,
  pack: Program,
  client: Program,
): void {
  const [loop, poll, none, again, end] = [{ at: 0 }, { at: 0 }, { at: 0 }, { at: 0 }, { at: 0 }];
  const bell = BELL + by.agent;
  by.place(loop);
  readBell(by);
  checkStop(by, end);
  by.step('launches the next batch', (state) => {
    const sequence = position(state, depth, Slot.packed);
    if (!isAt(state, depth, sequence, Slot.packed)) return poll.at;
    const early = broken === 'replay records `spent` before the readback of priorities';
    for (const operation of early ? [event, work] : [work, event])
      enqueue(state, COMPUTE_STREAM, operation(sequence));
    for (const from of [Slot.packed, Slot.submitted, Slot.ready])
      handOn(state, depth, sequence, from);
    markDone(state, by.agent);
    return poll.at;
  });
  by.place(poll);
  const fetch = (state: State, sequence: number) => {
    if (
      broken === 'poll does not fetch the priorities of manual ticks' &&
      manual.includes(sequence)
    )
      return;
    state[memory.BLOCK + (sequence % depth)] = state[memory.HOME + (sequence % depth)]!;
  };
  const late = broken === 'poll stores Free before it fetches the priorities';
  by.step('fetches what came home', (state, next) => {
    const sequence = position(state, depth, Slot.replaying);
    const spent =
      isAt(state, depth, sequence, Slot.replaying) &&
      !queued(state, depth, COMPUTE_STREAM, sequence, 0);
    if (spent && !late) fetch(state, sequence);
    return spent ? next : none.at;
  });
  step(by, 'stores Free', (state) => {
    handOn(state, depth, position(state, depth, Slot.replaying), Slot.replaying);
    markDone(state, by.agent);
  });
  if (late)
    step(by, 'fetches too late', (state) =>
      fetch(state, position(state, depth, Slot.replaying) - 1),
    );
  rings(pack);
  rings(client);
  by.place(none);
  by.step('', (state, next) => (state[bell]! & Local.did ? again.at : next), { local: true });
  park(by, NATIVE);
  by.goto(loop);
  by.place(again);
  const forget = (state: State): number => {
    state[bell] = state[bell]! & ~Local.did;
    return loop.at;
  };
  by.step('', forget, { local: true });
  by.place(end);
  by.end();
  by.place(by.restart);
  step(by, 'takes up the roles', () => {});
  for (const other of [pack, client]) rings(other);
  by.goto(loop);
}

/**
 * The device copies a batch, its update gives priorities or none, and the block is copied to host
 * memory. The event follows.
 */
function works(by: Program, { depth, silent = [] }: UpdatesSetup, poll: Program): void {
  const [loop, recorded] = [{ at: 0 }, { at: 0 }];
  const slotOf = (state: State) => ((state[COMPUTE_STREAM]! - 1) >> 1) % depth;
  by.place(loop);
  by.step('goes on', (state, next) => {
    const operation = state[COMPUTE_STREAM]!;
    if (operation === 0) return BLOCKED;
    if (operation & 1) {
      state[memory.DEVICE + slotOf(state)] = state[memory.COLUMN + slotOf(state)]!;
      return next;
    }
    words.dequeue(state, COMPUTE_STREAM);
    return recorded.at;
  });
  step(by, 'gives priorities', (state) => {
    const sequence = (state[COMPUTE_STREAM]! - 1) >> 1;
    if (!silent.includes(sequence)) state[memory.DEVICE + slotOf(state)] = memory.written(sequence);
  });
  step(by, 'brings them home', (state) => {
    state[memory.HOME + slotOf(state)] = state[memory.DEVICE + slotOf(state)]!;
    words.dequeue(state, COMPUTE_STREAM);
  });
  by.goto(loop);
  by.place(recorded);
  ring(by, poll);
  by.goto(loop);
}
