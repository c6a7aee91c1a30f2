/**
 * Builds the model of a setup from its agents: threads, client, the device's streams, the stopper
 * and the faults.
 */
import { type Ringing, ring } from './bell.ts';
import * as bystanders from './bystanders.ts';
import type { Model, Move, State } from './checker.ts';
import * as memory from './memory.ts';
import { Agent, COMPUTE_STREAM, COPY_STREAM, PLACE, Slot } from './memory.ts';
import { type Label, Program } from './program.ts';
import type { Role } from './roles.ts';
import type { Ring, Setup } from './setup.ts';
import { actorThread, deathsOf } from './thread.ts';

export function protocol(setup: Setup): Model {
  const { placement, depth, ticks, faults = [], grain = 'access' } = setup;
  const threads = placement.map((hosted, i) => new Program(hosted.join('+'), i, grain));
  const others: Program[] = [
    new Program('the copy stream', Agent.copy, grain),
    new Program('the compute stream', Agent.compute, grain),
  ];
  const client = setup.client ? new Program('client', Agent.client, grain) : undefined;
  const stopper = faults.includes('stop')
    ? new Program('stopper', Agent.stopper, grain)
    : undefined;
  const waiters = client ? [...threads, client] : threads;
  const hostOf = (role: Role): Program =>
    threads[placement.findIndex((hosted) => hosted.includes(role))]!;

  const ringing: Ringing = {
    broken:
      setup.broken === 'a ringer reads the flag before it increments the bell'
        ? 'flag first'
        : setup.broken === 'a ringer wakes every sleeper with Atomics.notify'
          ? 'always notify'
          : undefined,
  };
  const ringsBy = (by: Program): Ring => {
    return (from, to) => {
      if (setup.broken === `no ring: ${from} to ${to}`) return;
      if (to !== 'client') return ring(by, hostOf(to), ringing);
      const over: Label = { at: 0 };
      by.step(
        'looks whether the client waits',
        (state, next) => (state[memory.GOAL] ? next : over.at),
        {
          local: grain === 'hand-over',
        },
      );
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
  if (faults.includes('death')) moves.push(...threads.flatMap(deathsOf));

  const start = (state: State): void => {
    state.fill(0);
    memory.initSlots(state, depth);
  };

  const unfinished = (state: State): string | null => {
    const where = agents.map((agent) => `${agent.name} ${agent.current(state).says}`).join(', ');
    const told = `${memory.slotsInWords(state, depth)}; ${where}`;
    if (state[memory.STOP])
      return waiters.every((waiter) => waiter.current(state).end) ? null : `stopped, but ${told}`;
    if (setup.completion === 'never') return null;
    const every = 2 ** ticks - 1;
    if (state[memory.APPLIED] !== every || state[memory.JOURNAL] !== every)
      return `ticks are left, but ${told}`;
    if (memory.position(state, depth, Slot.replaying) !== ticks)
      return `a slot is left, but ${told}`;
    return client && !client.current(state).end ? `the client still waits: ${told}` : null;
  };

  return { width: memory.WIDTH, moves, start, unfinished };
}

function stopStrikes(): Move {
  const apply = (state: State): boolean => {
    if (state[PLACE + Agent.stopper] !== 0) return false;
    state[PLACE + Agent.stopper] = 1;
    return true;
  };
  return { optional: true, says: () => 'somebody asks to stop', apply };
}
