/**
 * `npm run fuzz`: makes all drawn calls, and prints those that failed as code.
 *
 *   --target NAME   what is fuzzed (all kinds by default)
 *   --device NAME   host, or a software driver: cuda12, cuda13, hip, ze, …
 *   --seed N --calls N --from N   the calls, each known by its seed and number
 *   --forms         also prints the forms that hardly ever returned an answer
 */
import { parseArgs } from 'node:util';
import { type Mode, modes } from '../drivers/software.ts';
import { type KindName, kinds } from './kinds.ts';
import { fuzz, inWords, type Plan, unordered } from './runner.ts';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: {
    target: text,
    device: text,
    seed: text,
    calls: text,
    from: text,
    forms: { type: 'boolean' },
  },
});
const { device = 'host' } = values;
const mode: Mode | null = device === 'host' ? null : (modes[device as keyof typeof modes] ?? null);
const names = (values.target === undefined ? Object.keys(kinds) : [values.target]) as KindName[];
if ((mode === null && device !== 'host') || names.some((name) => !(name in kinds))) {
  console.error(
    `targets: ${Object.keys(kinds).join(' ')}; devices: host ${Object.keys(modes).join(' ')}`,
  );
  process.exit(2);
}
for (const kind of names) {
  const plan: Plan = {
    kind,
    device: mode?.device ?? 'host:0',
    seed: Number(values.seed ?? Date.now() % 2 ** 31),
    calls: Number(values.calls ?? 20_000),
    from: Number(values.from ?? 0),
    ...(mode ? { env: unordered(mode) } : {}),
    onFound: (each) => console.log(`${inWords(plan, { found: [each] })}\n`),
  };
  const report = await fuzz(plan);
  const { calls, answers, refusals, told, waits } = report.counts;
  console.log(
    `${kind} on ${device}, seed ${plan.seed}: ${calls} calls, ${answers} answers, ${refusals} refusals, ${told} threw what callers threw, ` +
      `${waits} waited; ${report.found.length} kinds of failure, ${report.seconds.toFixed(0)} s`,
  );
  if (values.forms)
    for (const [form, [made, answered]] of report.forms)
      if (made > 20 && answered === 0) console.log(`never answered: ${form} of ${made}`);
  if (report.found.length > 0) process.exitCode = 1;
}
