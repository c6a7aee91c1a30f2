/**
 * The agents that are not actors: the client, the collector, the stopper and the device's two
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
 * The client requests tick 0. For each tick it waits until the batch is ready and requests the next
 * tick while this batch is hot. It then launches the learner and hands the slot to poll. At the end
 * it waits until the last slot is Free. It sleeps only on its own bell.
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

/**
 * The agent stores GOAL, reads its bell, then looks. The order matters, because poll rings a client
 * only if GOAL is set.
 */
function waitFor(
  by: Program,
  setup: Setup,
  end: Label,
  what: string,
  holds: (state: State) => boolean,
): void {
  const [loop, over] = [{ at: 0 }, { at: 0 }];
  const late = setup.broken === 'the client marks itself as waiting after its check';
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
 * The collector adds rows, which admits the next request, and rings pack's thread, which may wait
 * for the rows.
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
 * The stopper starts when the fault occurs (see `protocol.ts`). It stores the stop word, then rings
 * every bell.
 */
export function stopper(by: Program, setup: Setup, ringAll: () => void): void {
  by.step('is not asked to stop', () => BLOCKED);
  const early = setup.broken === 'the stopper rings the bells before it stores the stop word';
  if (early) ringAll();
  by.step('stores the stop word', (state, next) => {
    state[memory.STOP] = 1;
    return next;
  });
  if (!early) ringAll();
  by.end();
}

/**
 * A stream finishes its queued operations in order. When an event completes, native code rings
 * poll's bell.
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

/** Applies the learner's update, then stores the slot's mark. */
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
