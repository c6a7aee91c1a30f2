/**
 * Models the CPU device's executor. Threads enqueue ops. The pool creates and wakes its threads
 * when they are needed. An actor attends to the queues and leaves, and one thread helps while it
 * waits. The rules Executor-1 to Executor-6 are in native/device/host/executor.hpp.
 */
import type { Model, Move, State } from './checker.ts';
import type { Hand, Op } from './executor-hand.ts';
import { Helper } from './executor-help.ts';
import {
  AGENTS,
  Agent,
  ATTENDING,
  BOARD,
  Local,
  local,
  PARKED,
  PENDING,
  POPPED,
  PUSHED,
  WAITERS,
  WIDTH,
} from './executor-memory.ts';
import { PLACE } from './memory.ts';
import { BLOCKED, type Label } from './program.ts';

export interface ExecutorSetup {
  /** the ops of each queue, in order */
  queues: readonly (readonly Op[])[];
  /** for each enqueuing thread: the queues that it pushes to, in order */
  enqueues: readonly (readonly number[])[];
  /** the most threads of the pool; 2 by default */
  pool?: 1 | 2;
  /**
   * An actor attends until the point `until` is done, or leaves at any moment if it is omitted. It
   * counts as `times` pollers, 1 by default.
   */
  attends?: { until?: number; times?: number };
  /** the point that a waiting thread waits for */
  waits?: number;
  /** whether a thread calls help() once and then ends */
  helps?: boolean;
  broken?: ExecutorMutation;
}

export type ExecutorMutation =
  | 'a thread changes the pool word after it counts the pool'
  | 'a pool thread reads the pool word after it checks the queues'
  | 'a pool thread sleeps without counting itself as parked'
  | 'a pool thread does not count itself as held in a long op'
  | 'a pool thread counts itself as held after it checks the queues'
  | 'a thread begins a long op without checking the queues'
  | 'a thread claims a queue that another thread owns'
  | 'a thread releases a queue without checking it again'
  | 'a thread leaves runnable work and notifies no thread'
  | 'a thread leaves work for the pool and does not wake the pool'
  | 'an enqueuer notifies before it pushes the op'
  | 'an enqueuer relies on a busy attendant'
  | 'a thread that attends twice counts itself as busy once'
  | 'an attendant leaves without checking the queues'
  | 'an attendant reads its bell after it checks the queues'
  | 'a thread that ends an op does not ring the attendants'
  | 'a thread changes the completion word before it marks the point'
  | 'the waiter reads the completion word after it checks its point'
  | 'a thread launches a graph while its exec runs'
  | 'a paused graph releases its exec'
  | 'a record in a graph wakes no thread';

export function executorProtocol(setup: ExecutorSetup): Model {
  const hands: Hand[] = [];
  const once = (by: Hand, says: string) =>
    by.act(says, (state) => {
      state[by.mine(Local.moved)] = 0;
    });

  for (const [i, queues] of setup.enqueues.entries()) {
    const by = new Helper(`enqueuer ${i}`, Agent.enqueuers + i, 'enqueues', setup);
    const early = by.is('an enqueuer notifies before it pushes the op');
    for (const queue of queues) {
      if (early) by.notify();
      by.add(`counts an op of queue ${queue}`, PENDING + queue, 1);
      by.add('pushes it', PUSHED + queue, 1);
      if (!early) by.notify();
    }
    by.end();
    hands.push(by);
  }

  for (let i = 0; i < (setup.pool ?? 2); i++) {
    const by = new Helper(`pool thread ${i}`, Agent.pool + i, 'pool', setup);
    const loop: Label = { at: 0 };
    by.step('is not made yet', (state, next) => (state[by.mine(Local.asleep)] ? BLOCKED : next));
    by.place(loop);
    const late = by.is('a pool thread reads the pool word after it checks the queues');
    if (!late) once(by, "reads the pool's word");
    by.help();
    by.quietly((state, next) => (state[by.mine(Local.any)] ? loop.at : next));
    if (late) once(by, "reads the pool's word");
    const counted = !by.is('a pool thread sleeps without counting itself as parked');
    if (counted) by.add('counts itself parked', PARKED, 1);
    by.sleep();
    if (counted) by.add('is not parked any more', PARKED, -1);
    by.goto(loop);
    hands.push(by);
  }

  if (setup.attends) {
    const { until, times = 1 } = setup.attends;
    const by = new Helper('the attendant', Agent.attendant, 'attends', setup);
    const [loop, leaves, wakes, over] = Array.from({ length: 4 }, (): Label => ({ at: 0 })) as [
      Label,
      Label,
      Label,
      Label,
    ];
    by.act('attends', (state) => {
      state[BOARD] = 1;
      state[ATTENDING]! += times;
    });
    by.place(loop);
    const late = by.is('an attendant reads its bell after it checks the queues');
    if (!late) once(by, 'reads its bell');
    by.choose('looks whether it stays', (state, next) => {
      if (until !== undefined)
        return by.choice === 1 ? BLOCKED : by.has(until, state) ? leaves.at : next;
      return by.choice === 1 ? leaves.at : next;
    });
    by.help();
    by.quietly((state, next) => (state[by.mine(Local.any)] ? loop.at : next));
    if (late) once(by, 'reads its bell');
    by.sleep();
    by.goto(loop);
    by.place(leaves);
    by.act('goes away', (state) => {
      state[BOARD] = 0;
      state[ATTENDING]! -= times;
    });
    if (!by.is('an attendant leaves without checking the queues')) by.runnable(wakes);
    by.goto(over);
    by.place(wakes);
    by.wakePool();
    by.place(over);
    by.end();
    hands.push(by);
  }

  if (setup.waits !== undefined) {
    const by = new Helper('the waiter', Agent.waiter, 'helps', setup);
    const [loop, leaves, wakes, over] = Array.from({ length: 4 }, (): Label => ({ at: 0 })) as [
      Label,
      Label,
      Label,
      Label,
    ];
    by.add('counts itself waiting', WAITERS, 1);
    by.place(loop);
    const late = by.is('the waiter reads the completion word after it checks its point');
    if (!late) once(by, 'reads the word of completions');
    by.step('looks whether it is done', (state, next) =>
      by.has(setup.waits!, state) ? leaves.at : next,
    );
    if (late) once(by, 'reads the word of completions');
    by.help();
    by.quietly((state, next) => (state[by.mine(Local.any)] ? loop.at : next));
    by.sleep();
    by.goto(loop);
    by.place(leaves);
    by.add('waits no more', WAITERS, -1);
    by.runnable(wakes);
    by.goto(over);
    by.place(wakes);
    by.notify();
    by.place(over);
    by.end();
    hands.push(by);
  }

  if (setup.helps) {
    const by = new Helper('the helper', Agent.waiter, 'helps', setup);
    by.help();
    by.end();
    hands.push(by);
  }

  for (const { steps } of hands)
    if (steps.length > 255) throw new Error('a byte has no room for so many steps');
  const moves: Move[] = hands.flatMap((by) =>
    [0, 1].map((choice) => ({
      optional: false,
      says: (state: State) =>
        `${by.name} ${by.current(state).says}${choice ? ': the time is over' : ''}`,
      apply: (state: State) => by.tries(state, state[PLACE + by.agent]!, choice),
    })),
  );
  return {
    width: WIDTH,
    moves,
    start: (state) => {
      state.fill(0);
      for (let i = 0; i < AGENTS; i++)
        if (i >= Agent.pool && i < Agent.attendant) state[local(i, Local.asleep)] = 1;
    },
    unfinished: (state) => {
      const where = hands.map((by) => `${by.name} ${by.current(state).says}`).join(', ');
      const left = setup.queues.findIndex((ops, queue) => state[POPPED + queue]! < ops.length);
      if (left >= 0) return `queue ${left} has work, and nobody runs it: ${where}`;
      const stays = (agent: number) =>
        agent === Agent.attendant
          ? setup.attends?.until === undefined
          : agent >= Agent.pool && agent < Agent.attendant;
      const waiting = hands.find((by) => !stays(by.agent) && !by.current(state).end);
      return waiting ? `${waiting.name} does not end: ${where}` : null;
    },
  };
}
