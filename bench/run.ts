/** Runs benchmarks by name (all of them by default) and prints their figures, readable or as JSON lines. */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import type { Benchmark, Figure, Options } from './harness.ts';

const names = ['pack', 'sample', 'ring', 'graph', 'tick', 'learner', 'long'] as const;
const usage = `usage: npm run bench -- [name…] [--json] [--quick] [--device NAME]
names: ${names.join(', ')} (all but 'long' by default)
--device chooses the device of graph, tick, learner and long; pack, sample and ring use none.
Ratios are against the baseline named in the case, measured in the same run; > 1 is better than the baseline.`;

function options(): { chosen: string[]; json: boolean; options: Options } {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        device: { type: 'string', default: 'auto' },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    const unknown = positionals.find((name) => !(names as readonly string[]).includes(name));
    if (unknown !== undefined) throw new Error(`there is no benchmark '${unknown}'`);
    const chosen = positionals.length > 0 ? positionals : names.filter((name) => name !== 'long');
    return { chosen, json: values.json, options: { device: values.device, quick: values.quick } };
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}

const { chosen, json, options: settings } = options();
const figures: Figure[] = [];
if (!json) console.log(`${cpus()[0]?.model.trim()}, ${cpus().length} cores, Node ${process.versions.node}\n`);
for (const bench of chosen) {
  const { run } = (await import(`./${bench}.js`)) as { run: Benchmark };
  await run((figure) => {
    const full: Figure = { bench, ...figure };
    figures.push(full);
    if (json) return void console.log(JSON.stringify(full));
    const ratio = full.ratio === undefined ? '' : `${full.ratio.toFixed(2)} ×`;
    const baseline = full.baseline === undefined ? '' : `(${round(full.baseline)})`;
    const row = [bench.padEnd(8), full.case.padEnd(58), full.metric.padEnd(22), round(full.value).padStart(10)];
    console.log(`${row.join(' ')} ${full.unit.padEnd(7)} ${ratio.padStart(8)} ${baseline}`);
  }, settings);
}
if (json) console.log(JSON.stringify({ summary: true, figures: figures.length, node: process.versions.node }));

function round(value: number): string {
  return value >= 1000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}
