/**
 * One state of the modelled executor, byte by byte; places of programs lie where program.ts keeps
 * them.
 */
import type { State } from './checker.ts';

/**
 * Of two queues: ops pushed, taken off and counted as pending, who has the claim, how far a graph
 * is, who runs an op of it.
 */
export const [PUSHED, POPPED, PENDING, CLAIMED, NODE, RUNS] = [0, 2, 4, 6, 8, 10] as const;
/** points that are done, a bit each; whether the one exec is running */
export const [POINTS, EXEC] = [12, 13] as const;
/** the executor's counts, and who is on the board of attendants */
export const [ATTENDING, BUSY, THREADS, PARKED, HELD, WAITERS, BOARD] = [
  14, 15, 16, 17, 18, 19, 20,
] as const;
/** Of each agent, behind the programs' own bytes. */
const LOCAL = 52;
const SIZE = 8;
export const Local = {
  queue: 0,
  any: 1,
  ran: 2,
  late: 3,
  went: 4,
  moved: 5,
  asleep: 6,
  counted: 7,
} as const;
export const Agent = { enqueuers: 0, pool: 2, attendant: 4, waiter: 5 } as const;
export const AGENTS = 6;
export const WIDTH = LOCAL + SIZE * AGENTS;

export const local = (agent: number, which: number): number => LOCAL + SIZE * agent + which;

/** The word that an agent sleeps on moves; who sleeps on it wakes. */
export function wake(state: State, agent: number): void {
  state[local(agent, Local.moved)] = 1;
  state[local(agent, Local.asleep)] = 0;
}
