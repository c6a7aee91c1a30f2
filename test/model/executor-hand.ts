/**
 * A thread of the modelled executor: how it checks queues, wakes other threads and sleeps
 * (native/device/host/executor.cpp).
 */
import type { State } from './checker.ts';
import type { ExecutorMutation, ExecutorSetup } from './executor.ts';
import {
  Agent,
  ATTENDING,
  BOARD,
  BUSY,
  CLAIMED,
  EXEC,
  HELD,
  Local,
  local,
  NODE,
  PARKED,
  POINTS,
  POPPED,
  PUSHED,
  THREADS,
  WAITERS,
  wake,
} from './executor-memory.ts';
import { BLOCKED, type Label, Program } from './program.ts';

/**
 * An op is a letter and a point. `n`: a node. `r`: records the point. `w`: waits for the point.
 * `l`: lasts until the point is done. `h`: does the same, and only in the pool. `g`: replays the
 * one exec, and may pause. `G`: records its first point, then lasts until its second point is done.
 */
export type Op = string;
export type Kind = 'enqueues' | 'pool' | 'attends' | 'helps';

export class Hand extends Program {
  readonly setup: ExecutorSetup;
  readonly kind: Kind;
  readonly #choosing = new Set<number>();
  /** number of the alternative that a step tries */
  choice = 0;

  constructor(name: string, agent: number, kind: Kind, setup: ExecutorSetup) {
    super(name, agent, 'access');
    this.kind = kind;
    this.setup = setup;
  }

  tries(state: State, at: number, choice: number): boolean {
    if (choice > 0 && !this.#choosing.has(at)) return false;
    this.choice = choice;
    return this.advance(state);
  }

  is(how: ExecutorMutation): boolean {
    return this.setup.broken === how;
  }
  mine(which: number): number {
    return local(this.agent, which);
  }
  act(says: string, run: (state: State) => void): void {
    this.step(says, (state, next) => {
      run(state);
      return next;
    });
  }
  /** Emits a step that adds `amount` to a count. */
  add(says: string, where: number | ((state: State) => number), amount: number): void {
    this.act(says, (state) => {
      state[typeof where === 'number' ? where : where(state)]! += amount;
    });
  }
  finish(says: string, point: (state: State) => number): void {
    this.act(says, (state) => {
      state[POINTS] = state[POINTS]! | (1 << point(state));
    });
  }
  quietly(run: (state: State, next: number) => number): void {
    this.step('', run, { local: true });
  }
  choose(says: string, run: (state: State, next: number) => number): void {
    this.#choosing.add(this.steps.length);
    this.step(says, run);
  }
  has(point: number, state: State): boolean {
    return (state[POINTS]! & (1 << point)) !== 0;
  }

  // ---- checks -----------------------------------------------------------------------------------

  head(state: State, queue: number): Op | undefined {
    return state[POPPED + queue]! < state[PUSHED + queue]!
      ? this.setup.queues[queue]?.[state[POPPED + queue]!]
      : undefined;
  }
  ready(state: State, queue: number): boolean {
    const op = this.head(state, queue);
    if (op === undefined) return false;
    if (op[0] === 'w') return this.has(Number(op[1]), state);
    if (op[0] === 'g' && state[NODE + queue] === 0) return state[EXEC] === 0;
    return true;
  }
  claimable(state: State, queue: number): boolean {
    return state[CLAIMED + queue] === 0 && this.ready(state, queue);
  }
  /** Emits checks that jump to `there` if a queue can be run, and else continue. */
  runnable(there: Label): void {
    for (const queue of [0, 1])
      this.step(`looks whether queue ${queue} is runnable`, (state, next) =>
        this.claimable(state, queue) ? there.at : next,
      );
  }

  // ---- wakes ------------------------------------------------------------------------------------

  wakePool(): void {
    const over: Label = { at: 0 };
    const counted = this.mine(Local.counted);
    const word = () =>
      this.act("moves the pool's word", (state) => {
        for (const each of [0, 1]) state[local(Agent.pool + each, Local.moved)] = 1;
      });
    const late = this.is('a thread changes the pool word after it counts the pool');
    if (!late) word();
    this.act('counts the pool, less those asleep', (state) => {
      state[counted] = state[THREADS]! - state[PARKED]! + 8;
    });
    this.step('takes off those held', (state, next) => {
      const hands = state[counted]! - 8 - state[HELD]!;
      state[counted] = 0;
      return hands > 0 ? over.at : next;
    });
    if (late) word();
    this.step('wakes one, or makes one', (state, next) => {
      if (state[PARKED]! > 0) {
        const asleep = [0, 1].find((each) => state[local(Agent.pool + each, Local.asleep)]! > 0);
        if (asleep !== undefined) wake(state, Agent.pool + asleep);
      } else if (state[THREADS]! < (this.setup.pool ?? 2)) {
        state[local(Agent.pool + state[THREADS]!, Local.asleep)] = 0;
        state[THREADS]!++;
      }
      return next;
    });
    this.place(over);
  }

  ringAttendants(): void {
    this.act('rings who attends', (state) => {
      if (state[BOARD] && this.kind !== 'attends') wake(state, Agent.attendant);
    });
  }

  notify(): void {
    const over: Label = { at: 0 };
    const counted = this.mine(Local.counted);
    this.act('reads how many attend', (state) => {
      state[counted] = state[ATTENDING]!;
    });
    this.ringAttendants();
    this.step('takes off those busy', (state, next) => {
      const hands =
        state[counted]! - (this.is('an enqueuer relies on a busy attendant') ? 0 : state[BUSY]!);
      state[counted] = 0;
      return hands > 0 ? over.at : next;
    });
    this.wakePool();
    this.place(over);
  }

  completed(): void {
    this.act('moves the word of completions', (state) => {
      state[local(Agent.waiter, Local.moved)] = 1;
    });
    this.act('wakes who waits', (state) => {
      if (state[WAITERS]! > 0) state[local(Agent.waiter, Local.asleep)] = 0;
    });
    if (!this.is('a thread that ends an op does not ring the attendants')) this.ringAttendants();
  }

  /** Emits two steps: the thread compares the word with the value that it read, and sleeps. */
  sleep(): void {
    const [moved, asleep] = [this.mine(Local.moved), this.mine(Local.asleep)];
    this.act('compares the word, and sleeps', (state) => {
      if (!state[moved]) state[asleep] = 1;
    });
    this.step('sleeps', (state, next) => (state[asleep] ? BLOCKED : next));
  }
}
