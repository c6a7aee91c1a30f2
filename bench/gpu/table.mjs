// What a run of run.sh found, short: from those of its files that are there.
import { existsSync, readFileSync } from 'node:fs';
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

const told = new Map();
for (const { part, ...fact } of lines('facts.json'))
  for (const [name, value] of Object.entries(fact))
    told.set(part, [
      ...(told.get(part) ?? []),
      `${name}=${typeof value === 'number' ? Number(value.toPrecision(3)) : value}`,
    ]);
for (const [part, facts] of told) console.log(`${part}: ${facts.join(' ')}`);
const units = lines('tests.jsonl').filter(({ part }) => part);
if (units.length > 0) {
  const sum = (of) => units.reduce((total, unit) => total + of(unit), 0);
  const ended = lines('tests.jsonl').some(({ summary }) => summary);
  const [passed, failed] = [sum((u) => u.passes), sum((u) => u.failures.length)];
  const counts = `${passed} passed, ${failed} failed, ${sum((u) => u.pending)} left out`;
  console.log(`tests: ${counts}${ended ? '' : ', and not at their end'}`);
  for (const { title, error, alone } of units.flatMap(({ failures }) => failures))
    console.log(`  ${title}${alone ? ` (alone it ${alone})` : ''}: ${error.split('\n')[0].slice(0, 200)}`);
}
const training = lines('train.jsonl').at(-1);
if (training) console.log(`training: ${JSON.stringify(training).slice(0, 300)}`);
for (const figure of lines('bench.jsonl').filter(({ bench }) => bench)) {
  const { bench, case: what, metric, value, unit, baseline, ratio } = figure;
  const beside = baseline === undefined ? '' : ` (${short(baseline)}, ${ratio.toFixed(2)} ×)`;
  console.log(`${bench} | ${what} | ${metric} | ${short(value)} ${unit}${beside}`);
}
