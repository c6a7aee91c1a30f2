/** Puts the agents of a setup together into a model: threads, client, the device's streams, the stopper, the faults. */
import * as bystanders from './bystanders.ts';
import type { Model, Move, State } from './checker.ts';
import * as memory from './memory.ts';
import { Agent, COMPUTE_STREAM, COPY_STREAM, Local, PLACE, Slot } from './memory.ts';
import { checkStop, JAVASCRIPT, type Label, NATIVE, Program, park, type Ringing, readBell, ring } from './program.ts';
import { type Role, roles, takeOverReplay } from './roles.ts';
import type { Ring, Setup } from './setup.ts';

export function protocol(setup: Setup): Model {
  const { placement, depth, ticks, faults = [], grain = 'access' } = setup;
  const threads = placement.map((hosted, i) => new Program(hosted.join('+'), i, grain));
  const others: Program[] = [
    new Program('the copy stream', Agent.copy, grain),
    new Program('the compute stream', Agent.compute, grain),
  ];
  const client = setup.client ? new Program('client', Agent.client, grain) : undefined;
  const stopper = faults.includes('stop') ? new Program('stopper', Agent.stopper, grain) : undefined;
  const waiters = client ? [...threads, client] : threads;
  const hostOf = (role: Role): Program => threads[placement.findIndex((hosted) => hosted.includes(role))]!;

  const ringing: Ringing = {
    broken:
      setup.broken === 'flag looked at before the count is added'
        ? 'flag first'
        : setup.broken === 'every sleeper notified in JavaScript'
          ? 'always notify'
          : undefined,
  };
  const ringsBy = (by: Program): Ring => {
    return (from, to) => {
      if (setup.broken === `no ring: ${from} to ${to}`) return;
      if (to !== 'client') return ring(by, hostOf(to), ringing);
      const over: Label = { at: 0 };
      by.step('looks whether the client waits', (state, next) => (state[memory.GOAL] ? next : over.at), {
        local: grain === 'hand-over',
      });
      ring(by, client!, ringing);
      by.place(over);
    };
  };
  const ringAll = (by: Program, from: string): void => {
    for (const waiter of waiters) {
      if (setup.broken !== `no ring: ${from} to ${waiter.name}`) ring(by, waiter, ringing);
    }
  };

  for (const [i, by] of threads.entries())
    actorThread(by, placement[i]!, setup, ringsBy(by), () => ringAll(by, by.name));
  bystanders.stream(others[0]!, setup, COPY_STREAM, hostOf('poll'));
  bystanders.stream(others[1]!, setup, COMPUTE_STREAM, hostOf('poll'));
  if (client) bystanders.client(client, setup, ringsBy(client));
  if (stopper) {
    bystanders.stopper(stopper, setup, () => ringAll(stopper, 'stopper'));
    others.push(stopper);
  }
  if (setup.gated) {
    const collector = new Program('collector', Agent.collector, grain);
    bystanders.collector(collector, setup, ringsBy(collector));
    others.push(collector);
  }

  const agents = [...waiters, ...others];
  const moves: Move[] = agents.map((agent) => ({
    optional: false,
    says: (state) => `${agent.name} ${agent.current(state).says}`,
    apply: (state) => agent.advance(state),
  }));
  if (stopper) moves.push(stopStrikes());
  const firstDeath = moves.length;
  if (faults.includes('death')) {
    moves.push(...threads.map((thread) => deathOf(thread, false)));
    if (grain === 'hand-over') moves.push(...threads.map((thread) => deathOf(thread, true)));
  }

  const all = 2 ** moves.length - 1;
  const choices = (state: State): number => {
    // A broken protocol has no order that is known not to matter.
    if (setup.broken !== undefined) return all;
    for (let k = 0; k < agents.length; k++) {
      if (!agents[k]!.current(state).alone?.(state)) continue;
      // Its own death is the one thing that could come between.
      return (1 << k) | (k < threads.length ? (1 << (firstDeath + k)) & all : 0);
    }
    return all;
  };

  const start = (state: State): void => {
    state.fill(0);
    memory.initSlots(state, depth);
  };

  const unfinished = (state: State): string | null => {
    const where = agents.map((agent) => `${agent.name} ${agent.current(state).says}`).join(', ');
    const told = `${memory.slotsInWords(state, depth)}; ${where}`;
    if (state[memory.STOP]) return waiters.every((waiter) => waiter.current(state).end) ? null : `stopped, but ${told}`;
    if (setup.completion === 'never') return null;
    const every = 2 ** ticks - 1;
    if (state[memory.APPLIED] !== every || state[memory.JOURNAL] !== every) return `ticks are left, but ${told}`;
    if (memory.position(state, depth, Slot.replaying) !== ticks) return `a slot is left, but ${told}`;
    return client && !client.current(state).end ? `the client still waits: ${told}` : null;
  };

  return { width: memory.WIDTH, moves, start, choices, unfinished };
}

/** The duty cycle around the hosted roles, and what a successor does before it enters. */
function actorThread(by: Program, hosted: Role[], setup: Setup, rings: Ring, ringAll: () => void): void {
  const { broken } = setup;
  const [loop, again, end, javascript] = [{ at: 0 }, { at: 0 }, { at: 0 }, { at: 0 }];
  const lateBell = broken === 'bell read after the scan';
  const earlyStop = broken === 'stop looked at before the bell is read';
  const stops = setup.faults?.includes('stop');
  const bell = memory.BELL + by.agent;

  by.place(loop);
  if (stops && earlyStop) checkStop(by, end);
  if (!lateBell) readBell(by);
  if (stops && !earlyStop) checkStop(by, end);
  for (const role of hosted) roles[role](by, setup, rings);
  const decide = (state: State, next: number): number => {
    if (state[bell]! & Local.did) return again.at;
    return state[bell]! & Local.pending && broken !== 'JavaScript park with events pending' ? next : javascript.at;
  };
  by.step('', decide, { local: true });
  const watching = by.watching;
  if (lateBell) readBell(by);
  park(by, NATIVE, setup.completion === 'rounds' ? (state) => awaited(state, setup.depth) : undefined);
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
  if (broken !== 'no ring on restart') ringAll();
  if (hosted.includes('replay')) takeOverReplay(by, setup);
  by.goto(loop);
}

/** An event that poll waits for is done: what a native sleeper finds out by itself between two rounds. */
function awaited(state: State, depth: number): boolean {
  const done = (from: typeof Slot.submitted | typeof Slot.replaying, stream: number): boolean => {
    const sequence = memory.position(state, depth, from);
    return memory.isAt(state, depth, sequence, from) && !memory.queued(state, depth, stream, sequence, 0);
  };
  return done(Slot.submitted, COPY_STREAM) || done(Slot.replaying, COMPUTE_STREAM);
}

function stopStrikes(): Move {
  const apply = (state: State): boolean => {
    if (state[PLACE + Agent.stopper] !== 0) return false;
    state[PLACE + Agent.stopper] = 1;
    return true;
  };
  return { optional: true, says: () => 'somebody asks to stop', apply };
}

/**
 * The thread is gone with its locals and its successor has not run yet: the flag stays as it was, queued device work
 * goes on. A successor that is late is one that has not been scheduled, so the two are one move.
 */
function deathOf(thread: Program, afterStore: boolean): Move {
  const bell = memory.BELL + thread.agent;
  const apply = (state: State): boolean => {
    if (state[memory.DIED] || thread.current(state).end) return false;
    if (afterStore) {
      const { hands, run } = thread.current(state);
      if (!hands) return false;
      run(state, 0);
    }
    state[memory.DIED] = 1;
    state[bell] = state[bell]! & Local.flag;
    state[PLACE + thread.agent] = thread.restart.at;
    return true;
  };
  return {
    optional: true,
    says: () => `${thread.name} dies${afterStore ? ' between its store and its ring' : ''}`,
    apply,
  };
}
