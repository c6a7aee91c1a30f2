/** Writes the measured curves as tables and pictures to bench/results/scale. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Figure } from '../harness.ts';
import { COLOURS, look, svgOf } from '../picture.ts';
import type { Spread } from '../quiet.ts';
import { told } from '../quiet.ts';
import { type Curve, curves, type Metric, rise } from './curves.ts';

export type Placed = Omit<Figure, 'bench'>;
export interface Measured {
  cpu: string;
  node: string;
  commit: string;
  date: string;
  command: string;
  spread?: Spread;
}

interface Series {
  name: string;
  points: { x: number; value: number; low: number; high: number }[];
}

/** Returns the series of a metric, with their points in the order of x. */
export function seriesOf(curve: Curve, metric: Metric, figures: readonly Placed[]): Series[] {
  const own = figures.filter(
    ({ at, metric: of }) => at?.curve === curve.name && of === metric.metric,
  );
  return [...new Set(own.map(({ at }) => at!.series))].map((name) => ({
    name,
    points: own
      .filter(({ at }) => at!.series === name)
      .map(({ at, value, quartiles: [low, high] = [value, value] }) => ({
        x: at!.x,
        value,
        low,
        high,
      }))
      .sort((a, b) => a.x - b.x),
  }));
}

/** Returns a line for each series that becomes worse than its metric allows. */
export function risen(figures: readonly Placed[]): string[] {
  return curves.flatMap((curve) =>
    curve.metrics.flatMap((metric) =>
      seriesOf(curve, metric, figures).flatMap(({ name, points }) => {
        const by = rise(metric, points);
        if (metric.level === null || by <= metric.level.within) return [];
        const { since, within } = metric.level;
        const [from, to] = [since, points.at(-1)!.x].map((x) => x.toLocaleString('en'));
        return `${curve.title}, ${name}: ${by.toFixed(2)} × worse from ${from} to ${to} ${curve.x}, may be ${within} ×`;
      }),
    ),
  );
}

const short = (value: number): string =>
  value >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)));

/** Returns a metric's table: a row for each x, a column for each series. */
export function tableOf(curve: Curve, metric: Metric, figures: readonly Placed[]): string {
  const series = seriesOf(curve, metric, figures);
  const places = [...new Set(series.flatMap(({ points }) => points.map(({ x }) => x)))].sort(
    (a, b) => a - b,
  );
  const cell = ({ points }: Series, place: number) => {
    const point = points.find(({ x }) => x === place);
    return point ? `${short(point.value)} [${short(point.low)}–${short(point.high)}]` : '';
  };
  const { level } = metric;
  const last = level
    ? `worse at the end than at ${level.since.toLocaleString('en')} (may be ${level.within} ×)`
    : null;
  const lines = [
    [curve.x, ...series.map(({ name }) => `${name}, ${metric.unit}`)],
    ['---', ...series.map(() => '---')],
    ...places.map((place) => [
      place.toLocaleString('en'),
      ...series.map((each) => cell(each, place)),
    ]),
    ...(last
      ? [[last, ...series.map(({ points }) => `${rise(metric, points).toFixed(2)} ×`)]]
      : []),
  ];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** The axis labels: multiples of 1,024 in Ki, other values in thousands and millions. */
const LABEL =
  "datum.value % 1024 == 0 ? format(datum.value / 1024, '~r') + ' Ki' : datum.value < 1000 ? datum.value : format(datum.value, '~s')";

/**
 * Draws a curve as SVG: a panel for each metric, a line for each series, and a band between the
 * quartiles of its rounds.
 */
export function draw(curve: Curve, figures: readonly Placed[], of: Measured): Promise<string> {
  const panel = (metric: Metric) => {
    const series = seriesOf(curve, metric, figures);
    const values = series.flatMap(({ name, points }) =>
      points.map((point) => ({ ...point, name })),
    );
    const domain = series.map(({ name }) => name);
    const legend = {
      title: null,
      orient: 'bottom' as const,
      columns: 1,
      labelLimit: 400,
      symbolType: 'stroke',
    };
    const colours = {
      field: 'name',
      type: 'nominal' as const,
      scale: { domain, range: COLOURS.slice(0, domain.length) },
    };
    const places = [...new Set(values.map((point) => point.x))].sort((a, b) => a - b);
    const [least, most] = [
      Math.min(...values.map(({ low }) => low)),
      Math.max(...values.map(({ high }) => high)),
    ];
    const x = {
      field: 'x',
      type: 'quantitative' as const,
      title: curve.x,
      scale: { type: 'log' as const, domain: [places[0]! / 1.15, places.at(-1)! * 1.15] },
      axis: { grid: true, values: places, labelExpr: LABEL, labelOverlap: true },
    };
    // Values that differ more than tenfold have a logarithmic axis. Others have a linear axis from
    // zero.
    const wide = most / least > 10;
    const y = {
      type: 'quantitative' as const,
      title: `${metric.metric}, ${metric.unit}`,
      scale: wide
        ? { type: 'log' as const, domain: [least / 1.2, most * 1.2] }
        : { domain: [0, most * 1.1] },
      axis: { grid: true, format: ',~r', tickCount: wide ? 5 : 6 },
    };
    return {
      width: 420,
      height: 280,
      data: { values },
      layer: [
        {
          mark: { type: 'area' as const, opacity: 0.18 },
          encoding: {
            x,
            y: { field: 'low', ...y },
            y2: { field: 'high' },
            color: { ...colours, legend: null },
          },
        },
        {
          mark: { type: 'line' as const, strokeWidth: 2, point: true },
          encoding: { x, y: { field: 'value', ...y }, color: { ...colours, legend } },
        },
      ],
      resolve: { legend: { color: 'independent' as const } },
    };
  };
  return svgOf({
    ...look,
    title: {
      text: curve.title,
      subtitle: `medians, band: quartiles of the rounds; ${of.cpu}, Node ${of.node}, ${of.date.slice(0, 10)}, ${of.commit.slice(0, 10)}`,
      anchor: 'start',
    },
    hconcat: curve.metrics.map(panel),
    resolve: { scale: { color: 'independent' } },
  });
}

/** Writes the pictures and README.md with the tables. Returns the folder. */
export async function write(
  folder: string,
  figures: readonly Placed[],
  of: Measured,
): Promise<string> {
  mkdirSync(folder, { recursive: true });
  const parts: string[] = [];
  for (const curve of curves) {
    writeFileSync(join(folder, `${curve.name}.svg`), await draw(curve, figures, of));
    const tables = curve.metrics.map(
      (metric) => `**${metric.metric}**\n\n${tableOf(curve, metric, figures)}`,
    );
    parts.push(
      `## ${curve.title}\n\n![${curve.title}](${curve.name}.svg)\n\n${tables.join('\n\n')}`,
    );
  }
  const rises = risen(figures);
  const head = [
    '# What grows, and what does not',
    `Written by \`${of.command}\`: medians, in brackets the quartiles of the rounds. ${of.cpu}, Node ${of.node}, ${of.date.slice(0, 10)}, commit ${of.commit}; the machine meanwhile: ${of.spread ? told(of.spread) : 'not looked at'}.`,
    rises.length === 0
      ? 'Nothing rises that should not.'
      : `What rises more than it may:\n\n- ${rises.join('\n- ')}`,
  ];
  writeFileSync(join(folder, 'README.md'), `${[...head, ...parts].join('\n\n')}\n`);
  return folder;
}
