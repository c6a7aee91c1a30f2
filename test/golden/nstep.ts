/** Cases of the section `nstep`: transitions of up to n steps, for each gamma. */
import { columnsOf, rounded, sameList } from './differences.ts';
import {
  type History,
  type Layouts,
  type Row,
  rowsToCheck,
  sameRows,
  withHistory,
} from './histories.ts';

interface NstepLane {
  /** the ticks to which the elements of the other columns belong */
  row: number[];
  k: number[];
  next: number[];
  terminated: number[];
  truncated: number[];
  /** by gamma, as text */
  return: Record<string, number[]>;
  discount: Record<string, number[]>;
  drawable: Layouts;
  /** rows that are in the ring but not complete */
  excluded: Layouts;
}

export interface NstepCase {
  history: string;
  n: number;
  gammas: string[];
  lanes: NstepLane[];
}

/** The buffer computes sums and powers in float32. */
const tolerance = rounded(1e-5);

export function checkNstep(golden: NstepCase, history: History): void {
  for (const [lane, { drawable, excluded }] of golden.lanes.entries()) {
    const from = history.lane[lane]!.firstLive.cells;
    const live = Array.from({ length: history.ticks - from }, (_, i) => from + i);
    const others = live.filter((tick) => !drawable.shared.includes(tick));
    sameList(`the file's excluded rows of lane ${lane}`, excluded.shared, others);
  }
  const layouts = golden.lanes.map(({ drawable }) => drawable);
  withHistory(history, (buffer, places) => {
    for (const gamma of golden.gammas) {
      const view = buffer.transitions({ nStep: golden.n, gamma: Number(gamma) });
      const rows = rowsToCheck(`gamma ${gamma}`, { buffer, view, places }, layouts);
      const got = columnsOf(buffer.transitionsAt({ view, ids: rows.map(({ id }) => id) }));
      const column = (
        name: string,
        of: (lane: NstepLane) => number[] | undefined,
        float32 = false,
      ) => {
        const expected = ({ lane, tick }: Row) => {
          const columns = golden.lanes[lane]!;
          return of(columns)?.[columns.row.indexOf(tick)];
        };
        sameRows(
          `gamma ${gamma}: ${name}`,
          got[name],
          rows,
          expected,
          float32 ? { tolerance } : {},
        );
      };
      const own = (name: string, of: (row: Row) => number) =>
        sameRows(`gamma ${gamma}: ${name}`, got[name], rows, of);
      own('ids', ({ id }) => id);
      own('obs', ({ lane, tick }) => history.lane[lane]!.obs[tick]!);
      own('tick', ({ tick }) => tick + 1);
      column('steps', (lane) => lane.k);
      column('nextObs', (lane) => lane.next);
      column('terminated', (lane) => lane.terminated);
      column('truncated', (lane) => lane.truncated);
      column('rewards', (lane) => lane.return[gamma], true);
      column('discounts', (lane) => lane.discount[gamma], true);
    }
  });
}
