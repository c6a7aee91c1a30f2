/**
 * Cases of the section `windows`: the places at which each rule allows a window, and the contents
 * of some windows.
 */
import { columnsOf, Difference } from './differences.ts';
import {
  type History,
  type Layouts,
  type Row,
  rowsToCheck,
  sameRows,
  withHistory,
} from './histories.ts';

interface Contents {
  lane: number;
  /** the place of the window */
  at: number;
  /** −1 for padding */
  tick: number[];
  obs: number[];
  next: number[];
  reward: number[];
  terminated: number[];
  truncated: number[];
  /** 0 for padding */
  valid: number[];
  learn: number[];
}

export interface WindowsCase {
  history: string;
  length: number;
  burnIn: number;
  rules: { rule: 'full' | 'tail' | 'anchor'; lanes: Layouts[]; contents: Contents[] }[];
}

/**
 * Returns a window's observations: of its steps, then the one after the last step, and 0 for
 * padding.
 */
function observations({ obs, next, valid }: Contents): number[] {
  const all = [...obs.map(() => 0), 0];
  valid.forEach((there, i) => {
    if (there !== 1 && (obs[i] !== 0 || next[i] !== 0))
      throw new Difference(`the file's padding at [${i}] is ${obs[i]} and ${next[i]}, expected 0`);
    if (there !== 1) return;
    if (i > 0 && valid[i - 1] === 1 && obs[i] !== next[i - 1])
      throw new Difference(
        `the file's next[${i - 1}] is ${next[i - 1]}, its obs[${i}] is ${obs[i]}`,
      );
    all[i] = obs[i]!;
    all[i + 1] = next[i]!;
  });
  return all;
}

export function checkWindows(golden: WindowsCase, history: History): void {
  const { length, burnIn } = golden;
  withHistory(history, (buffer, places) => {
    for (const { rule, lanes, contents } of golden.rules) {
      const view = buffer.windows({ length, burnIn, edges: rule });
      const there = new Set(rowsToCheck(rule, { buffer, view, places }, lanes).map(({ id }) => id));
      const all = contents.map((each) => ({ ...places.row(each.lane, each.at), each }));
      const rows = all.filter(({ id }) => there.has(id));
      const got = columnsOf(buffer.transitionsAt({ view, ids: rows.map(({ id }) => id) }));
      const column = (
        name: string,
        width: number,
        of: (each: Contents, row: Row) => number | number[],
      ) => sameRows(`${rule}: ${name}`, got[name], rows, (row) => of(row.each, row), { width });
      const steps = burnIn + length;
      column('ids', 1, (_, row) => row.id);
      column('steps', 1, ({ valid }) => valid.filter((there) => there === 1).length);
      column('mask', steps, ({ valid }) => valid);
      column('learn', steps, ({ learn }) => learn);
      column('tick', steps, ({ tick }) => tick.map((each) => each + 1));
      column('obs', steps + 1, observations);
      column('rewards', steps, ({ reward }) => reward);
      column('terminated', steps, ({ terminated }) => terminated);
      column('truncated', steps, ({ truncated }) => truncated);
    }
  });
}
