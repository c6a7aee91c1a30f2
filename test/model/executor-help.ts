/**
 * How the executor's threads help (native/device/host/executor.cpp and run.cpp), as steps of a
 * program. Each step has at most one access that other threads see, or is one critical section of a
 * lock.
 */
import { type State, Violation } from './checker.ts';
import { Hand } from './executor-hand.ts';
import {
  BUSY,
  CLAIMED,
  EXEC,
  HELD,
  Local,
  NODE,
  PENDING,
  POPPED,
  RUNS,
} from './executor-memory.ts';
import { BLOCKED, type Label } from './program.ts';

export class Helper extends Hand {
  // ---- help -------------------------------------------------------------------------------------

  /** help(): runs every runnable op. `any` is set if the thread ran at least one. */
  help(): void {
    const [queue, any, ran, late, went] = [
      Local.queue,
      Local.any,
      Local.ran,
      Local.late,
      Local.went,
    ].map((which) => this.mine(which)) as [number, number, number, number, number];
    const mark = (): Label => ({ at: 0 });
    const [pass, look, nextQueue, claim, head, release, endPass, lateWake, forPool, done] =
      Array.from({ length: 10 }, mark) as [
        Label,
        Label,
        Label,
        Label,
        Label,
        Label,
        Label,
        Label,
        Label,
        Label,
      ];
    const q = (state: State) => state[queue]!;
    const attends = this.kind === 'attends';
    const pool = this.kind === 'pool';
    const times = this.is('a thread that attends twice counts itself as busy once')
      ? 1
      : (this.setup.attends?.times ?? 1);

    if (attends) this.add('counts itself busy', BUSY, times);
    this.quietly((state, next) => {
      state[any] = state[late] = 0;
      return next;
    });
    this.place(pass);
    this.quietly((state, next) => {
      state[ran] = state[queue] = state[went] = 0;
      return next;
    });
    this.place(look);
    this.step('looks at a queue', (state, next) => {
      if (q(state) === 2) return endPass.at;
      if (state[late]) return this.claimable(state, q(state)) ? lateWake.at : nextQueue.at;
      return state[PENDING + q(state)] === 0 ? nextQueue.at : next;
    });
    this.place(claim);
    this.step('claims it', (state, next) => {
      if (state[CLAIMED + q(state)] && !this.is('a thread claims a queue that another thread owns'))
        return nextQueue.at;
      state[CLAIMED + q(state)] = this.agent + 1;
      state[went] = 0;
      return next;
    });
    this.#drain(head, release, q, went, late);
    this.place(release);
    this.act('gives the claim back', (state) => {
      state[CLAIMED + q(state)] = 0;
      state[ran] = state[ran]! | state[went]!;
    });
    this.step('looks at it again', (state) => {
      if (state[late] || this.is('a thread releases a queue without checking it again'))
        return nextQueue.at;
      if (!this.ready(state, q(state))) return nextQueue.at;
      return !pool && this.head(state, q(state))?.[0] === 'h' ? forPool.at : claim.at;
    });
    this.place(forPool);
    if (!this.is('a thread leaves work for the pool and does not wake the pool')) this.wakePool();
    this.place(nextQueue);
    this.quietly((state) => {
      state[queue]!++;
      return look.at;
    });
    this.place(lateWake);
    this.wakePool();
    this.place(endPass);
    this.quietly((state, next) => {
      state[any] = state[any]! | state[ran]!;
      const again = state[ran] && !state[late];
      state[queue] = state[ran] = state[went] = 0;
      return again ? pass.at : next;
    });
    if (attends) this.add('is not busy any more', BUSY, -times);
    if (!attends) {
      const leaves = mark();
      this.quietly((state, next) => (state[any] ? next : done.at));
      if (!this.is('a thread leaves runnable work and notifies no thread')) this.runnable(leaves);
      this.goto(done);
      this.place(leaves);
      this.notify();
    }
    this.place(done);
  }

  /**
   * drain(): with the queue's claim, runs ops from the head. It ends if the queue is empty, if an
   * op has to wait, or if the time limit is reached.
   */
  #drain(
    head: Label,
    release: Label,
    q: (state: State) => number,
    went: number,
    late: number,
  ): void {
    const pool = this.kind === 'pool';
    const [record, long, graph, pop, popRecord, clock] = Array.from(
      { length: 6 },
      (): Label => ({ at: 0 }),
    ) as [Label, Label, Label, Label, Label, Label];
    const pointOf = (state: State, nth = 1) => Number(this.head(state, q(state))![nth]);
    this.place(head);
    this.step('looks at its head', (state) => {
      const op = this.head(state, q(state));
      if (op === undefined || (op[0] === 'h' && !pool)) return release.at;
      if (op[0] === 'w' && !this.has(pointOf(state), state)) return release.at;
      if (op[0] === 'g' && state[NODE + q(state)] === 0) {
        if (state[EXEC] && !this.is('a thread launches a graph while its exec runs'))
          return release.at;
        if (state[EXEC]) throw new Violation('exec', 'two replays of one exec run at once');
        state[EXEC] = 1;
      }
      if (state[RUNS + q(state)]) throw new Violation('runner', 'two threads run ops of one queue');
      state[RUNS + q(state)] = 1;
      return op[0] === 'r'
        ? record.at
        : 'lhG'.includes(op[0]!)
          ? long.at
          : op[0] === 'g'
            ? graph.at
            : pop.at;
    });

    this.place(record);
    const early = this.is('a thread changes the completion word before it marks the point');
    if (early) this.completed();
    this.finish('finishes a point', (state) => pointOf(state));
    this.goto(popRecord);

    this.place(long);
    const held = () => {
      if (pool && !this.is('a pool thread does not count itself as held in a long op'))
        this.add('is held', HELD, 1);
    };
    const [wakes, runs, through] = Array.from({ length: 3 }, (): Label => ({ at: 0 })) as [
      Label,
      Label,
      Label,
    ];
    const behind = this.is('a pool thread counts itself as held after it checks the queues');
    if (!behind) held();
    if (!this.is('a thread begins a long op without checking the queues')) this.runnable(wakes);
    if (behind) held();
    this.goto(runs);
    this.place(wakes);
    if (behind) held();
    this.wakePool();
    this.place(runs);
    this.quietly((state, next) => (this.head(state, q(state))![0] === 'G' ? next : through.at));
    this.finish('finishes a point in a graph', (state) => pointOf(state));
    this.completed();
    const inside: Label = { at: 0 };
    if (!this.is('a record in a graph wakes no thread')) this.runnable(inside);
    this.goto(through);
    this.place(inside);
    this.wakePool();
    this.place(through);
    this.step('runs what takes long', (state, next) => {
      const last = this.head(state, q(state))![0] === 'G' ? 2 : 1;
      return this.has(pointOf(state, last), state) ? next : BLOCKED;
    });
    if (pool && !this.is('a pool thread does not count itself as held in a long op'))
      this.add('is not held any more', HELD, -1);
    this.goto(pop);

    this.place(graph);
    this.choose('runs a node, and looks at the clock', (state, next) => {
      if (this.choice === 0) return next;
      if (pool || state[NODE + q(state)]) return BLOCKED;
      state[NODE + q(state)] = 1;
      state[RUNS + q(state)] = 0;
      if (this.is('a paused graph releases its exec')) state[EXEC] = 0;
      state[late] = state[went] = 1;
      return release.at;
    });
    this.act('ends the replay', (state) => {
      if (!state[EXEC])
        throw new Violation('exec', 'a replay of an exec that another one had meanwhile');
      state[EXEC] = 0;
    });

    const taken = (says: string, to: () => number) =>
      this.step(says, (state) => {
        state[POPPED + q(state)]!++;
        state[NODE + q(state)] = state[RUNS + q(state)] = 0;
        state[went] = 1;
        return to();
      });
    const counted: Label = { at: 0 };
    const recorded: Label = { at: 0 };
    this.place(pop);
    taken('takes the op off', () => counted.at);
    this.place(counted);
    this.step('counts it done', (state, next) => {
      state[PENDING + q(state)]!--;
      return state[PENDING + q(state)] === 0 ? next : clock.at;
    });
    this.completed();
    this.goto(clock);
    this.place(popRecord);
    taken('takes the record off', () => recorded.at);
    this.place(recorded);
    this.add('counts it done', (state) => PENDING + q(state), -1);
    if (!early) this.completed();
    this.place(clock);
    this.choose('looks at the clock', (state) => {
      if (this.choice === 0) return head.at;
      if (pool) return BLOCKED;
      state[late] = 1;
      return release.at;
    });
  }
}
