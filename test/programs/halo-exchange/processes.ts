/**
 * The processes that compute the parts: only this process, or all processes that an MPI launcher
 * started.
 */
import {
  type HaloExchangeOptions,
  type SharedHaloExchange,
  shareHaloExchange,
} from '../../../src/entries/halo.ts';
import type { MpiProcess } from '../../../src/entries/ranks.ts';
import { domainOf, type Mode } from './domain.ts';
import type { PartResult } from './part.ts';
import { frame, framesAt, type Plan } from './plan.ts';

export interface Processes {
  /** whether this process prints the result */
  readonly first: boolean;
  share(options: HaloExchangeOptions): SharedHaloExchange;
  /** returns the ranks of this process's parts, in order */
  ranksOf(plan: Plan): number[];
  /** Collects the results of all processes' parts, and copies their fields into the plan. */
  gather(plan: Plan, mine: readonly PartResult[]): Promise<PartResult[]>;
}

const upTo = (n: number) => Array.from({ length: n }, (_, k) => k);

export const alone: Processes = {
  first: true,
  share: shareHaloExchange,
  ranksOf: ({ ranks }) => upTo(ranks),
  gather: async (_, mine) => [...mine],
};

/**
 * Returns why a domain's parts cannot be divided evenly among this number of processes, or null.
 */
export function notAmong(mode: Mode, processes: number): string | null {
  const { ranks } = domainOf(mode, 1).topology;
  if (ranks % processes === 0) return null;
  const can = upTo(ranks + 1).filter((n) => n > 0 && ranks % n === 0);
  const numbers = `${can.slice(0, -1).join(', ')} or ${can.at(-1)}`;
  return `the ${mode} has ${ranks} parts, which cannot be divided evenly among ${processes} processes: start ${numbers}`;
}

export function together(mpi: MpiProcess): Processes {
  const ranksOf = ({ ranks }: Plan, process = mpi.rank) => {
    const each = ranks / mpi.size;
    return upTo(each).map((k) => process * each + k);
  };
  /** Returns the cells of a process in each of the kept fields. */
  const fields = (plan: Plan, process: number) => {
    const [first] = ranksOf(plan, process) as [number, ...number[]];
    const [from, many] = [first * plan.size ** 2, (plan.ranks / mpi.size) * plan.size ** 2];
    return framesAt(plan.steps).map((_, index) =>
      frame(plan, plan.parts, index).subarray(from, from + many),
    );
  };
  return {
    first: mpi.rank === 0,
    share: (options) => mpi.shareHaloExchange(options),
    ranksOf,
    async gather(plan, mine) {
      const numbers = mine.flatMap((part) => results.map((name) => part[name]));
      const given = Float64Array.from([
        ...numbers,
        ...fields(plan, mpi.rank).flatMap((field) => [...field]),
      ]);
      const all = await mpi.allGather(given);
      return all.flatMap((values, process) => {
        let at = numbers.length;
        for (const field of fields(plan, process)) {
          field.set(values.subarray(at, at + field.length));
          at += field.length;
        }
        return mine.map((_, k) => {
          const of = (name: number) => values[k * results.length + name] as number;
          return Object.fromEntries(
            results.map((name, n) => [name, of(n)]),
          ) as unknown as PartResult;
        });
      });
    },
  };
}
const results = [
  'steps',
  'start',
  'meanwhile',
  'wait',
  'early',
  'massBefore',
  'massAfter',
] as const;
