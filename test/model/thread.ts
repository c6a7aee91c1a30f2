/**
 * An actor's thread: the duty cycle of its roles, its death, and the first acts of its successor.
 */
import { checkStop, park, readBell } from './bell.ts';
import type { Move, State } from './checker.ts';
import * as memory from './memory.ts';
import { COMPUTE_STREAM, COPY_STREAM, Local, PLACE, Slot } from './memory.ts';
import { BLOCKED, JAVASCRIPT, NATIVE, type Program } from './program.ts';
import { type Role, roles, takeOverReplay } from './roles.ts';
import type { Ring, Setup } from './setup.ts';

export function actorThread(
  by: Program,
  hosted: Role[],
  setup: Setup,
  rings: Ring,
  ringAll: () => void,
): void {
  const { broken } = setup;
  const [loop, again, end, javascript] = [{ at: 0 }, { at: 0 }, { at: 0 }, { at: 0 }];
  const lateBell = broken === 'a thread reads its bell after it checks the slots';
  const earlyStop = broken === 'a thread checks for a stop before it reads its bell';
  const stops = setup.faults?.includes('stop');
  const bell = memory.BELL + by.agent;

  by.place(loop);
  if (stops && earlyStop) checkStop(by, end);
  if (!lateBell) readBell(by);
  if (stops && !earlyStop) checkStop(by, end);
  for (const role of hosted) roles[role](by, setup, rings);
  const decide = (state: State, next: number): number => {
    if (state[bell]! & Local.did) return again.at;
    return state[bell]! & Local.pending &&
      broken !== 'a thread parks in JavaScript while events are pending'
      ? next
      : javascript.at;
  };
  by.step('', decide, { local: true });
  const watching = by.watching;
  if (lateBell) readBell(by);
  park(
    by,
    NATIVE,
    setup.completion === 'rounds' ? (state) => awaited(state, setup.depth) : undefined,
  );
  by.goto(loop);
  by.watching = watching;
  by.place(javascript);
  if (lateBell) readBell(by);
  park(by, JAVASCRIPT);
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
  if (broken !== 'a successor rings no bell when it starts') ringAll();
  if (hosted.includes('replay')) takeOverReplay(by, setup, end);
  by.goto(loop);
}

/**
 * Whether an event that poll waits for is done. A native sleeper finds that out by itself between
 * two rounds.
 */
function awaited(state: State, depth: number): boolean {
  const done = (from: typeof Slot.submitted | typeof Slot.replaying, stream: number): boolean => {
    const sequence = memory.position(state, depth, from);
    return (
      memory.isAt(state, depth, sequence, from) && !memory.queued(state, depth, stream, sequence, 0)
    );
  };
  return done(Slot.submitted, COPY_STREAM) || done(Slot.replaying, COMPUTE_STREAM);
}

/**
 * The most accesses in one step after which a death leaves a new state: look, event, store, ring,
 * ring.
 */
const MAX_STEP = 5;

/**
 * Returns a move for each moment at which a thread may die: between two steps, and, at the coarse
 * grain, inside a step.
 */
export function deathsOf(thread: Program): Move[] {
  const moments = thread.grain === 'access' ? 1 : MAX_STEP;
  return Array.from({ length: moments }, (_, accesses) => deathOf(thread, accesses));
}

/**
 * Returns the move by which a thread dies. Its locals are gone, its flag stays as it was, and the
 * device continues queued work. The same move puts the successor at its first step, because a late
 * successor is one that is not scheduled yet.
 */
function deathOf(thread: Program, accesses: number): Move {
  const { agent, steps, restart } = thread;
  const before = new Uint8Array(memory.WIDTH);
  const apply = (state: State): boolean => {
    if (state[memory.DIED] || thread.current(state).end) return false;
    let at = state[PLACE + agent]!;
    if (accesses > 0) before.set(state);
    for (let done = 0; done < accesses; done++) {
      at = done === 0 || steps[at]!.local ? steps[at]!.run(state, at + 1) : BLOCKED;
      if (at !== BLOCKED && !steps[at]!.end) continue;
      state.set(before);
      return false;
    }
    state[memory.DIED] = 1;
    state[memory.BELL + agent] = state[memory.BELL + agent]! & Local.flag;
    state[PLACE + agent] = restart.at;
    return true;
  };
  return {
    optional: true,
    says: () => `${thread.name} dies${accesses ? ` ${accesses} accesses later` : ''}`,
    apply,
  };
}
