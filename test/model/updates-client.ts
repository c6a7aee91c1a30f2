/** The client of the modelled priority updates: it begins runs, pauses between them, and closes. */
import { park, readBell } from './bell.ts';
import { type Move, type State, Violation } from './checker.ts';
import * as words from './memory.ts';
import { BELL, COMPUTE_STREAM, PLACE, position, Slot } from './memory.ts';
import { BLOCKED, JAVASCRIPT, type Label, type Program } from './program.ts';
import type { UpdatesSetup } from './updates.ts';
import * as memory from './updates-memory.ts';
import { MODE, Mode, type Rings, RUN, step } from './updates-memory.ts';

/**
 * Emits the client's program: two runs with a pause between them, then close(). Returns the moves
 * by which the client ends a run, or closes, at any moment.
 */
export function asks(
  by: Program,
  setup: UpdatesSetup,
  rings: Rings,
  pack: Program,
  rest: Program,
): Move[] {
  const { depth, ticks, broken } = setup;
  const [pause, close] = [{ at: 0 }, { at: 0 }];
  const aborts: Move[] = [];
  const run = (number: 1 | 2, abort: string, to: Label) => {
    step(by, `begins run ${number}`, (state) => {
      state[RUN] = number;
      state[MODE] = Mode.run;
    });
    rings(pack);
    const from = by.steps.length;
    waitFor(
      by,
      'for its ticks',
      (state) => position(state, depth, Slot.replaying) >= ticks[number - 1]!,
    );
    aborts.push(abortOf(by, abort, [from, by.steps.length], to));
  };
  run(1, 'ends the run', pause);
  by.place(pause);
  step(by, 'pauses', (state) => {
    state[memory.ANSWERED] = 0;
    state[MODE] = Mode.paused;
  });
  rings(pack);
  if (broken === 'the client takes back the requests of pack') {
    const [loop, over] = [{ at: by.steps.length }, { at: 0 }];
    by.step('takes a request back', (state) => {
      const last = memory.newest(state, depth);
      if (last < 0) return over.at;
      memory.takeBack(state, depth, last);
      return loop.at;
    });
    by.place(over);
  }
  const idle = (state: State) =>
    Array.from({ length: depth }, (_, slot) => state[slot]! & 7).every((at) => at === 0);
  const hasty = broken === 'the client begins a run before the pause is answered';
  const careless = broken === 'the client begins a run before every slot is Free';
  const over = (state: State) =>
    (hasty || state[memory.ANSWERED] === 1) && (careless || idle(state));
  waitFor(by, 'for the end of the run', over);
  run(2, 'closes', close);
  by.place(close);
  closes(by, setup, () => [pack, rest].forEach(rings), [pack, rest]);
  return aborts;
}

function waitFor(by: Program, what: string, holds: (state: State) => boolean): void {
  const [loop, over] = [{ at: 0 }, { at: 0 }];
  by.place(loop);
  readBell(by);
  by.step(`looks ${what}`, (state, next) => (holds(state) ? over.at : next));
  park(by, JAVASCRIPT);
  by.goto(loop);
  by.place(over);
}

function abortOf(
  by: Program,
  says: string,
  [from, to]: readonly [number, number],
  label: Label,
): Move {
  return {
    optional: true,
    says: () => `the client ${says}`,
    apply: (state) => {
      const at = state[PLACE + by.agent]!;
      if (at < from || at >= to) return false;
      state[BELL + by.agent] = 0;
      by.moveTo(state, label.at);
      return true;
    },
  };
}

/** The client stops the threads, drains the device, and applies the pending updates. */
function closes(
  by: Program,
  setup: UpdatesSetup,
  ringAll: () => void,
  threads: readonly Program[],
): void {
  const { depth, broken } = setup;
  const over = { at: 0 };
  step(by, 'stores the stop word', (state) => {
    state[words.STOP] = 1;
  });
  ringAll();
  const ended = (state: State) => threads.every((thread) => thread.current(state).end);
  if (broken !== 'close() does not wait until the threads end')
    by.step('waits for the threads', (state, next) => (ended(state) ? next : BLOCKED));
  if (broken !== 'close() does not drain the device')
    by.step('drains the device', (state, next) =>
      words.isIdle(state, COMPUTE_STREAM) ? next : BLOCKED,
    );
  const loop = { at: by.steps.length };
  by.step('applies the next pending update', (state) => {
    const least = broken === 'close() applies updates a second time' ? 0 : state[memory.APPLIED]!;
    const all = memory.spent(state, depth, broken === 'close() ignores slots that are Requested');
    const pending = all.filter(({ sequence }) => sequence >= least);
    const next = broken === 'close() applies the newest update first' ? pending.at(-1) : pending[0];
    if (next === undefined || broken === 'close() applies no update') return over.at;
    const slot = next.sequence % depth;
    if (next.replaying) state[memory.BLOCK + slot] = state[memory.HOME + slot]!;
    memory.apply(state, setup, next.sequence);
    state[memory.APPLIED] = next.sequence + 1;
    if (!threads[0]!.current(state).end) throw new Violation('owner', 'the tree has two owners');
    return loop.at;
  });
  by.place(over);
  by.step('looks at the tree', (state, next) => {
    const launched = position(state, depth, Slot.ready);
    if (state[memory.TREE] !== launched)
      throw new Violation(
        'lost',
        `${launched} updates were made, ${state[memory.TREE]} are applied`,
      );
    return next;
  });
  by.end();
}
