/**
 * Tests how the benchmark `scale` presents its figures: the order of series, the warnings about
 * rises, a table and a picture.
 */
import { expect } from 'chai';
import { curves, rise } from '../../bench/scale/curves.ts';
import { draw, type Placed, risen, seriesOf, tableOf } from '../../bench/scale/table.ts';

const curve = curves.find(({ name }) => name === 'rows-stored')!;
const [metric] = curve.metrics as [(typeof curve.metrics)[number]];
const { since, within } = metric.level!;

/** A point of a series. Its quartiles are a tenth below and above the value. */
const at = (x: number, value: number, series = 'a'): Placed => ({
  case: '',
  metric: metric.metric,
  unit: metric.unit,
  value,
  quartiles: [0.9 * value, 1.1 * value],
  at: { curve: curve.name, series, x },
});
const figures = [at(10 * since, 1.2), at(since / 100, 0.2), at(since, 1)];

describe('figures of the scale benchmark', () => {
  it('seriesOf() sorts a series along its curve, and omits other metrics', () => {
    const [series] = seriesOf(curve, metric, [...figures, { ...at(1, 1), metric: 'another' }]);
    expect(series!.points.map(({ x }) => x)).to.deep.equal([since / 100, since, 10 * since]);
  });
  it('rise() measures the change from `since` on, in the direction of `better`', () => {
    const [{ points }] = seriesOf(curve, metric, figures) as [ReturnType<typeof seriesOf>[number]];
    expect(rise(metric, points)).to.equal(1.2);
    expect(rise({ ...metric, better: 'more' }, points)).to.be.closeTo(1 / 1.2, 1e-9);
  });
  it('risen() returns a line for each series that rises more than `within`', () => {
    expect(risen(figures)).to.deep.equal([]);
    const [line, ...others] = risen([
      ...figures,
      at(since, 1, 'b'),
      at(10 * since, within + 1, 'b'),
    ]);
    expect(others).to.deep.equal([]);
    expect(line).to.include(', b: ').and.to.include(`may be ${within} ×`);
  });
  it('tableOf() writes a row for each point and a column for each series', () => {
    const lines = tableOf(curve, metric, [...figures, at(since, 2000, 'b')]).split('\n');
    expect(lines[0]).to.equal(`| rows stored | a, ${metric.unit} | b, ${metric.unit} |`);
    expect(lines[3]).to.equal('| 1,000,000 | 1 [0.9–1.1] | 2,000 [1,800–2,200] |');
    expect(lines.at(-1)).to.match(/^\| worse at the end .* \| 1\.20 × \| 1\.00 × \|$/);
  });
  it('draw() includes the names of both axes, the unit, the title, the commit and the date', async () => {
    const of = { cpu: 'CPU', node: '20', commit: 'c0ffee', date: '2026-01-01', command: '' };
    const svg = await draw(curve, figures, of);
    for (const text of [
      'rows stored',
      `${metric.metric}, ${metric.unit}`,
      curve.title,
      'c0ffee',
      '2026-01-01',
    ])
      expect(svg).to.include(text);
  });
});
