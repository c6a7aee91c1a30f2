/**
 * Draws recorded learning curves: return against environment steps with the published curves of
 * other projects, and return against seconds.
 */
import { COLOURS, look, svgOf } from '../picture.ts';
import type { Published } from './published.ts';
import type { CurveRecord, Look } from './record.ts';

const [OURS, ...THEIRS] = COLOURS as [string, ...string[]];
/** Intervals of the horizontal axis, at whose ends the means over the seeds are computed. */
const PLACES = 40;

interface Row {
  x: number;
  mean: number;
  low: number | null;
  high: number | null;
  who: string;
}

/** Interpolates a curve between two evaluations. Returns null outside the curve. */
function valueAt(curve: readonly Look[], along: 'steps' | 'seconds', x: number): number | null {
  const after = curve.findIndex((look) => look[along] >= x);
  if (after < 0) return null;
  const b = curve[after]!;
  if (b[along] === x) return b.meanReturn;
  const a = curve[after - 1];
  if (!a) return null;
  return a.meanReturn + ((b.meanReturn - a.meanReturn) * (x - a[along])) / (b[along] - a[along]);
}

/**
 * Returns the mean, the lowest and the highest return of the seeds, along the range that all seeds
 * have.
 */
export function spreadOf({ runs }: CurveRecord, along: 'steps' | 'seconds', who: string): Row[] {
  const from = Math.max(...runs.map(({ curve }) => curve[0]![along]));
  const to = Math.min(...runs.map(({ curve }) => curve.at(-1)![along]));
  return Array.from({ length: PLACES + 1 }, (_, i) => {
    const x = i === PLACES ? to : from + ((to - from) * i) / PLACES;
    const values = runs.map(({ curve }) => valueAt(curve, along, x)!);
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    return { x, mean, low: Math.min(...values), high: Math.max(...values), who };
  });
}

const theirs = ({ who, points }: Published): Row[] =>
  points.map(([x, mean, low, high]) => ({ x, mean, low, high, who }));

interface Scales {
  colours: { domain: string[]; range: string[] };
  /** the vertical range of both panels, so that they can be compared */
  returns: [number, number];
}

function panel(rows: readonly Row[], title: string, { colours, returns }: Scales) {
  const single = new Set(
    colours.domain.filter((who) => rows.filter((row) => row.who === who).length === 1),
  );
  const legend = {
    title: null,
    orient: 'bottom' as const,
    columns: 1,
    labelLimit: 600,
    symbolType: 'stroke',
    symbolOpacity: 1,
    symbolStrokeWidth: 3,
  };
  const colour = { field: 'who', type: 'nominal' as const, scale: colours, legend };
  const x = { field: 'x', type: 'quantitative' as const, title };
  const y = {
    field: 'mean',
    type: 'quantitative' as const,
    title: 'return',
    scale: { domain: returns },
  };
  const lines = { values: rows.filter(({ who }) => !single.has(who)) };
  const points = { values: rows.filter(({ who }) => single.has(who)) };
  const bands = (data: typeof lines) => data.values.filter(({ low }) => low !== null);
  return {
    width: 380,
    height: 260,
    layer: [
      {
        data: { values: bands(lines) },
        mark: { type: 'area' as const, opacity: 0.18 },
        encoding: {
          x,
          y: { field: 'low', type: 'quantitative' as const },
          y2: { field: 'high' },
          color: colour,
        },
      },
      {
        data: lines,
        mark: { type: 'line' as const, strokeWidth: 2 },
        encoding: { x, y, color: colour },
      },
      {
        data: { values: bands(points) },
        mark: { type: 'rule' as const, strokeWidth: 2, opacity: 0.5 },
        encoding: {
          x,
          y: { field: 'low', type: 'quantitative' as const },
          y2: { field: 'high' },
          color: colour,
        },
      },
      {
        data: points,
        mark: { type: 'point' as const, filled: true, size: 70 },
        encoding: { x, y, color: colour },
      },
    ],
  };
}

/** Draws both panels and returns them as SVG. */
export async function draw(record: CurveRecord, others: readonly Published[]): Promise<string> {
  const { environment, algorithm, episodes, runs, cpu } = record;
  const ours = `Hotslot, ${environment}, ${runs.length} ${runs.length === 1 ? 'seed' : 'seeds'}, greedy`;
  const colours = { domain: [ours, ...others.map(({ who }) => who)], range: [OURS, ...THEIRS] };
  const bySteps = [...spreadOf(record, 'steps', ours), ...others.flatMap(theirs)];
  const bySeconds = spreadOf(record, 'seconds', ours);
  const ends = [...bySteps, ...bySeconds].flatMap(({ mean, low, high }) => [
    low ?? mean,
    high ?? mean,
  ]);
  const scales: Scales = { colours, returns: [Math.min(...ends), Math.max(...ends)] };
  const spread = `band: lowest to highest seed${others.length > 0 ? ', of others one deviation' : ''}`;
  return svgOf({
    ...look,
    title: {
      text: `${algorithm.toUpperCase()} on ${environment}`,
      subtitle: `means over seeds, ${episodes} episodes a look; ${spread}; ${cpu}`,
      anchor: 'start',
    },
    hconcat: [panel(bySteps, 'environment steps', scales), panel(bySeconds, 'seconds', scales)],
  });
}
