// What a run of run.sh found, short: from those of its files that are there.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

const [folder] = process.argv.slice(2);

/** The whole lines that are JSON: a stage that was ended may have left half of one. */
function lines(name) {
  const file = join(folder, name);
  if (!existsSync(file)) return [];
  return readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    });
}
const short = (value) => (Math.abs(value) >= 1000 ? String(Math.round(value)) : value.toPrecision(3));

/** Those of all files whose names begin so. */
const linesOf = (begin) =>
  readdirSync(folder)
    .filter((name) => name.startsWith(begin) && name.endsWith('.jsonl'))
    .flatMap((name) => lines(name));
const value = (fact) => (typeof fact !== 'number' || Number.isInteger(fact) ? fact : Number(fact.toPrecision(3)));

/** A line per part: what it told, and how it ended when that was not well. */
function tellFacts(name, only) {
  const told = new Map();
  for (const { part, ...fact } of lines(`${name}.jsonl`))
    for (const [key, of] of Object.entries(fact)) {
      if (!part || (only && part !== only) || key === 'device' || key === 'cuda' || of === 'ok') continue;
      told.set(part, [...(told.get(part) ?? []), `${key}=${value(of)}`]);
    }
  for (const [part, facts] of told) console.log(`${name}, ${part}: ${facts.join(' ')}`);
}
const warm = lines('facts-warm.jsonl').length > 0;
// Cold, the kernels are compiled: the rest is the same.
tellFacts('facts', warm ? 'loading' : undefined);
tellFacts('facts-warm');

for (const name of ['same', 'pinned', 'contract', 'above', 'lost']) {
  const all = lines(`tests-${name}.jsonl`);
  const units = all.filter(({ part }) => part);
  if (units.length === 0) continue;
  const sum = (of) => units.reduce((total, unit) => total + of(unit), 0);
  const ended = all.some(({ summary }) => summary);
  const [passed, failed] = [sum((u) => u.passes), sum((u) => u.failures.length)];
  const counts = `${passed} passed, ${failed} failed, ${sum((u) => u.pending)} left out`;
  console.log(`tests, ${name}: ${counts}${ended ? '' : ', and not at their end'}`);
  for (const { title, error, alone } of units.flatMap(({ failures }) => failures))
    console.log(`  ${title}${alone ? ` (alone it ${alone})` : ''}: ${error.split('\n')[0].slice(0, 200)}`);
}
const { allocatedMs, registeredMs } = lines('copy.json').at(-1) ?? {};
if (allocatedMs)
  console.log(`copy to the device: allocated ${short(allocatedMs)} ms, registered ${short(registeredMs)} ms`);
const { device, cuda, ...calls } = lines('calls.json').at(-1) ?? {};
if (device)
  console.log(
    `the driver's calls, µs: ${Object.entries(calls)
      .map(([name, us]) => `${name}=${value(us)}`)
      .join(' ')}`,
  );
const training = lines('train.jsonl').at(-1);
if (training) console.log(`training: ${JSON.stringify(training).slice(0, 300)}`);
const figures = linesOf('bench-').filter(({ bench }) => bench);
const compared = ['torch', 'torch-tf32', 'peers'];
/** Hotslot and PyTorch in one table: above 1, Hotslot is faster. */
function tellPeers() {
  const rows = compared.flatMap((name) => figures.filter(({ bench }) => bench === name));
  if (rows.length === 0) return;
  console.log(`${'ratio'.padStart(7)} ${'Hotslot, µs'.padStart(12)} ${'PyTorch, µs'.padStart(12)}`);
  for (const { case: what, metric, value: ours, baseline, ratio } of rows) {
    const cells = [`${ratio.toFixed(2)} ×`.padStart(7), short(ours).padStart(12), short(baseline).padStart(12)];
    console.log(`${cells.join(' ')}  ${metric.replace('time per ', '')}: ${what}`);
  }
}
tellPeers();
for (const figure of figures.filter(({ bench }) => !compared.includes(bench))) {
  const { bench, case: what, metric, value: of, unit, baseline, ratio } = figure;
  const beside = baseline === undefined ? '' : ` (${short(baseline)}, ${ratio.toFixed(2)} ×)`;
  console.log(`${bench} | ${what} | ${metric} | ${short(of)} ${unit}${beside}`);
}
