/**
 * `npm run storm -- [--minutes 10] [--seed N] [--per-second 3] [--driver cuda13] [--verbose]`. The
 * exit code is 0 if the storm found no error.
 */
import { parseArgs } from 'node:util';
import { environmentOf, type Mode, modes } from '../drivers/software.ts';
import { NO_SERVER } from '../remote/server.ts';
import { storm } from './director.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    'per-second': { type: 'string', default: '3' },
    driver: { type: 'string' },
    verbose: { type: 'boolean', default: false },
  },
});
const [minutes, seed, perSecond] = [values.minutes, values.seed, values['per-second']].map(
  Number,
) as [number, number, number];
function refuse(sentence: string): never {
  console.error(`storm: ${sentence}`);
  process.exit(2);
}
if (!(minutes > 0) || !(perSecond > 0) || !Number.isSafeInteger(seed) || seed < 0)
  refuse('--minutes and --per-second must be above 0, --seed a whole number from 0 on');
const mode =
  values.driver === undefined ? null : (modes as Readonly<Record<string, Mode>>)[values.driver];
if (mode === undefined) refuse(`--driver must be one of ${Object.keys(modes).join(', ')}`);
if (NO_SERVER !== null) refuse(NO_SERVER);
// With a software driver, driver calls fail too.
const on = mode === null ? {} : { device: mode.device, env: environmentOf(mode) };
const { faults, facts, wrong } = await storm({
  ...on,
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
console.log(
  wrong.length === 0 ? 'nothing was lost, doubled or torn, nothing hung' : `${wrong.length} wrong`,
);
process.exitCode = wrong.length === 0 ? 0 : 1;
