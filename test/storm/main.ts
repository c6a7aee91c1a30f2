/** `npm run storm -- [--minutes 10] [--seed N] [--per-second 3] [--verbose]`: exit code 0 when nothing was wrong. */
import { parseArgs } from 'node:util';
import { storm } from './director.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    'per-second': { type: 'string', default: '3' },
    verbose: { type: 'boolean', default: false },
  },
});
const [minutes, seed, perSecond] = [values.minutes, values.seed, values['per-second']].map(Number) as [
  number,
  number,
  number,
];
if (!(minutes > 0) || !(perSecond > 0) || !Number.isSafeInteger(seed) || seed < 0)
  throw new RangeError('--minutes and --per-second must be above 0, --seed a whole number from 0 on');
const { faults, facts, wrong } = await storm({
  seed,
  seconds: minutes * 60,
  perSecond,
  verbose: values.verbose,
  print: console.log,
});
const all = Object.values(faults).reduce((sum, count) => sum + count, 0);
console.log(`seed ${seed}, ${minutes} min: ${all} faults ${JSON.stringify(faults)}`);
console.log(`seen: ${JSON.stringify(facts)}`);
for (const each of wrong) console.error(`wrong: ${each}`);
console.log(wrong.length === 0 ? 'nothing was lost, doubled or torn, nothing hung' : `${wrong.length} wrong`);
process.exitCode = wrong.length === 0 ? 0 : 1;
