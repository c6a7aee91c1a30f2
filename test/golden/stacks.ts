/**
 * Cases of the section `stacks`: the last k frames of an observation and of the next one, with both
 * kinds of padding.
 */
import { columnsOf } from './differences.ts';
import {
  type History,
  type Layouts,
  type Row,
  rowsToCheck,
  sameRows,
  withHistory,
} from './histories.ts';

interface StacksLane {
  /** the ticks to which the elements of the other columns belong */
  row: number[];
  drawable: Layouts;
  /**
   * k frames per row, the oldest first; frames before the episode are its first observation
   * (repeat) or 0 (zero)
   */
  obsRepeat: number[][];
  obsZero: number[][];
  nextRepeat: number[][];
  nextZero: number[][];
}

export interface StacksCase {
  history: string;
  frames: number;
  lanes: StacksLane[];
}

const pads = [
  ['repeat', 'obsRepeat', 'nextRepeat'],
  ['zero', 'obsZero', 'nextZero'],
] as const;

export function checkStacks(golden: StacksCase, history: History): void {
  const width = golden.frames;
  withHistory(history, (buffer, places) => {
    for (const [pad, obs, next] of pads) {
      const view = buffer.transitions({ nStep: 1, gamma: 0.99, stack: { obs: width }, pad });
      const layouts = golden.lanes.map(({ drawable }) => drawable);
      const rows = rowsToCheck(`pad ${pad}`, { buffer, view, places }, layouts);
      const got = columnsOf(buffer.transitionsAt({ view, ids: rows.map(({ id }) => id) }));
      const expected =
        (column: typeof obs | typeof next) =>
        ({ lane, tick }: Row) => {
          const of = golden.lanes[lane]!;
          return of[column][of.row.indexOf(tick)];
        };
      sameRows(`pad ${pad}: ids`, got.ids, rows, ({ id }) => id);
      sameRows(`pad ${pad}: tick`, got.tick, rows, ({ tick }) => tick + 1);
      sameRows(`pad ${pad}: obs`, got.obs, rows, expected(obs), { width });
      sameRows(`pad ${pad}: nextObs`, got.nextObs, rows, expected(next), { width });
    }
  });
}
