/**
 * One state of the modelled executor, byte by byte. Each program's next step is stored where
 * program.ts stores it.
 */
import type { State } from './checker.ts';

/**
 * For each of two queues. `PUSHED`, `POPPED`, `PENDING`: number of ops. `CLAIMED`: 1 + the agent
 * that has the claim, or 0. `NODE`: the next node of its graph. `RUNS`: whether a thread runs one
 * of its ops.
 */
export const [PUSHED, POPPED, PENDING, CLAIMED, NODE, RUNS] = [0, 2, 4, 6, 8, 10] as const;
/** points that are done, a bit for each; whether the one exec runs */
export const [POINTS, EXEC] = [12, 13] as const;
/** the executor's counts, and whether the attendant is on the board */
export const [ATTENDING, BUSY, THREADS, PARKED, HELD, WAITERS, BOARD] = [
  14, 15, 16, 17, 18, 19, 20,
] as const;
/** Bytes of each agent, after the bytes that all programs have. */
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

/** Changes the word that the agent sleeps on, and wakes the agent. */
export function wake(state: State, agent: number): void {
  state[local(agent, Local.moved)] = 1;
  state[local(agent, Local.asleep)] = 0;
}
