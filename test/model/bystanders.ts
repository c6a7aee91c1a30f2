/**
 * Everyone who is not an actor: the client, the collector, the stopper and the device's two
 * streams.
 */
import { checkStop, park, readBell, ring } from './bell.ts';
import { type State, Violation } from './checker.ts';
import * as memory from './memory.ts';
import { COMPUTE_STREAM, COPY_STREAM, enqueue, event, isAt, Slot } from './memory.ts';
import { BLOCKED, JAVASCRIPT, type Label, type Program } from './program.ts';
import { launch } from './roles.ts';
import type { Ring, Setup } from './setup.ts';

/**
 * Asks for tick 0, then for each tick: waits for it, asks for the next while this one is hot,
 * launches the learner and hands the slot to poll. At the end it waits for the last slot to be
 * free. It sleeps on nothing but its own bell.
 */
export function client(by: Program, setup: Setup, rings: Ring): void {
  const { depth, ticks } = setup;
  const end: Label = { at: 0 };
  const ask = (tick: number): void => {
    if (tick === ticks) return;
    by.step(`leaves a request for tick ${tick}`, (state, next) => {
      const moved = tick === 0 || memory.position(state, depth, Slot.free) >= tick;
      if (!moved) throw new Violation('Slot-1', `the request for tick ${tick - 1} is overwritten`);
      state[memory.HEADER] = tick + 1;
      return next;
    });
    rings('client', 'pack');
  };
  ask(0);
  for (let tick = 0; tick < ticks; tick++) {
    waitFor(by, setup, end, `tick ${tick} to be ready`, (state) =>
      isAt(state, depth, tick, Slot.ready),
    );
    ask(tick + 1);
    const then = (says: string, act: (state: State) => void): void => {
      const run = (state: State, next: number): number => {
        act(state);
        return next;
      };
      by.step(says, run, { local: by.grain === 'hand-over' });
    };
    then(`launches tick ${tick}`, (state) => launch(state, depth, tick));
    then('records the spent event', (state) => enqueue(state, COMPUTE_STREAM, event(tick)));
    then('stores Replaying', (state) => memory.handOn(state, depth, tick, Slot.ready));
    rings('client', 'poll');
  }
  const free = ticks - 1 + depth;
  waitFor(by, setup, end, 'the last slot to be free', (state) =>
    isAt(state, depth, free, Slot.free),
  );
  by.place(end);
  by.end();
}

/** Says that it waits, then reads its bell, then looks: poll rings only a client that says so. */
function waitFor(
  by: Program,
  setup: Setup,
  end: Label,
  what: string,
  holds: (state: State) => boolean,
): void {
  const [loop, over] = [{ at: 0 }, { at: 0 }];
  const late = setup.broken === 'client says that it waits after it looked';
  const goal = (value: 0 | 1): void => {
    by.step(value ? 'says that it waits' : 'says that it waits no more', (state, next) => {
      state[memory.GOAL] = value;
      return next;
    });
  };
  if (!late) goal(1);
  by.place(loop);
  readBell(by);
  if (setup.faults?.includes('stop')) checkStop(by, end);
  by.step(`looks for ${what}`, (state, next) => (holds(state) ? over.at : next));
  if (late) goal(1);
  park(by, JAVASCRIPT);
  by.goto(loop);
  by.place(over);
  goal(0);
}

/**
 * Adds rows, which is what lets the next request through, and rings the threads that may wait for
 * them.
 */
export function collector(by: Program, setup: Setup, rings: Ring): void {
  for (let tick = 0; tick < setup.ticks; tick++) {
    by.step('adds rows', (state, next) => {
      state[memory.ROWS] = tick + 1;
      return next;
    });
    rings('collector', 'pack');
  }
  by.end();
}

/**
 * Starts when the fault strikes (see `protocol.ts`), stores the stop word, then rings every bell.
 */
export function stopper(by: Program, setup: Setup, ringAll: () => void): void {
  by.step('is not asked to stop', () => BLOCKED);
  const early = setup.broken === 'stop rung before it is stored';
  if (early) ringAll();
  by.step('stores the stop word', (state, next) => {
    state[memory.STOP] = 1;
    return next;
  });
  if (!early) ringAll();
  by.end();
}

/**
 * Finishes what is queued on a stream, in order; a completed event rings poll's bell from native
 * code.
 */
export function stream(by: Program, setup: Setup, from: number, poll: Program): void {
  const { depth, completion = 'rings', broken } = setup;
  const [loop, recorded] = [{ at: 0 }, { at: 0 }];
  const finish = from === COPY_STREAM ? finishCopy : finishGraph;
  const hangs = completion === 'never' && from === COMPUTE_STREAM;
  by.place(loop);
  by.step(`finishes the next operation on ${by.name}`, (state) => {
    const operation = state[from]!;
    if (operation === 0 || hangs) return BLOCKED;
    memory.dequeue(state, from);
    if ((operation & 1) === 0) return recorded.at;
    finish(state, depth, (operation - 1) >> 1);
    return loop.at;
  });
  by.place(recorded);
  if (completion === 'rings' && broken !== 'no ring: device to poll')
    ring(by, poll, { from: 'native' });
  by.goto(loop);
}

function finishCopy(state: State, depth: number, sequence: number): void {
  const slot = sequence % depth;
  state[memory.DEVICE + slot] = state[memory.HOST + slot]!;
}

/** The learner's update, and behind it the mark. */
function finishGraph(state: State, depth: number, sequence: number): void {
  const bit = 1 << sequence;
  if (state[memory.DEVICE + (sequence % depth)] !== sequence + 1)
    throw new Violation('Slot-2', `${sequence} learns from other rows`);
  if (state[memory.APPLIED]! & bit) throw new Violation('Slot-8', `${sequence} is applied twice`);
  if (state[memory.APPLIED] !== bit - 1)
    throw new Violation('Slot-3', `${sequence} is applied out of order`);
  state[memory.APPLIED] = state[memory.APPLIED]! | bit;
  state[memory.MARK] = sequence + 1;
}
