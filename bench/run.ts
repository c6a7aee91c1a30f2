/**
 * Runs the named benchmarks, by default all that concern the device. Prints their figures as text
 * or as JSON lines.
 */
import { cpus } from 'node:os';
import { parseArgs } from 'node:util';
import { openDevice } from '../src/index.ts';
import { type Benchmark, type Figure, type Goal, meets, type Options } from './harness.ts';
import { isWide, judged, Quiet, type Spread, spreadOf, told, unquiet } from './quiet.ts';
import { type DeviceRecord, record, refusal } from './record.ts';

const names = [
  'pack',
  'sample',
  'trajectories',
  'priorities',
  'collect',
  'bridge',
  'ring',
  'graph',
  'prefetch',
  'tick',
  'learner',
  'ops',
  'trace',
  'gemm',
  'products',
  'full-iteration',
  'todevice',
  'halo',
  'ranks',
  'transfer',
  'driver',
  'seen',
  'monitor',
  'torch',
  'torch-tf32',
  'traced',
  'peers',
  'scale',
  'checkpoint',
  'remote',
  'long',
] as const;
type Name = (typeof names)[number];
const seconds: Readonly<Record<Name, string>> = {
  pack: '6 s',
  sample: '1 s',
  trajectories: '20 s',
  priorities: '20 s',
  collect: '60 s',
  bridge: '8 s',
  ring: '11 s',
  graph: '1 s',
  prefetch: '3 s',
  tick: '75 s',
  learner: '2 s',
  ops: '3 s',
  trace: '12 s',
  gemm: '5 s',
  products: '20 s, on a GPU',
  'full-iteration': '1 s',
  todevice: '10 s',
  halo: '14 s',
  ranks: '40 s',
  transfer: '160 s',
  driver: 'seconds',
  seen: '2 s',
  monitor: '100 s',
  torch: '60 s',
  'torch-tf32': '60 s, on a GPU',
  traced: '60 s',
  peers: '500 s',
  scale: '180 s',
  checkpoint: '240 s',
  remote: '200 s',
  long: '30 s',
};
/** Benchmarks that run by default only on the CPU device. */
const processor: readonly Name[] = [
  'pack',
  'sample',
  'trajectories',
  'priorities',
  'collect',
  'bridge',
  'ring',
  'gemm',
  'monitor',
];
/**
 * Benchmarks about what the CPU device does not have. They run by default on every other device.
 */
const accelerator: readonly Name[] = ['transfer', 'driver', 'seen'];
/** Benchmarks that run only if they are named. */
const named: readonly Name[] = [
  'products',
  'torch',
  'torch-tf32',
  'traced',
  'ranks',
  'peers',
  'scale',
  'checkpoint',
  'remote',
  'long',
];

const usage = `usage: npm run bench -- [name…] [--json] [--quick] [--device NAME] [--record] [--explain] [--write]
names, and about how long each takes on two cores:
  ${names.map((name) => `${name} ${seconds[name]}`).join(', ')}
--quick takes a tenth to a half of that, with fewer rounds: for a look, not for a figure.
by default, what the device has to do with, but not 'torch', 'torch-tf32', 'traced' and 'peers' (they need python3-torch), not 'products' (it needs cuBLAS), not 'remote' (it needs
redis-server or valkey-server), not 'scale', not 'long', and not 'checkpoint' (it writes 30 GB to the disk, where TMPDIR says): ${processor.join(', ')} for the processor,
${accelerator.join(', ')} for any other device, the rest for both. --device chooses it (auto).
--explain: of 'tick', where each microsecond of a small tick goes. Of 'traced', the launches of each plan.
--write: of 'products', put the limits of Hotslot's own products into native/device/core/product_limits.hpp.
--record writes the figures to bench/results/<device>.json, but not those of a benchmark during which the machine was not
quiet: before and after each figure the same short work is done, and how far its times lie apart stands behind it
(numbers / memory, '!' where that is too far to be recorded). That work is the processor's. So of a benchmark of another
device, those figures are recorded all the same whose own quartiles lie as close together.
Behind a median stand the quartiles of its rounds. Ratios are against the baseline named in the case, measured in the
same run; > 1 is better than the baseline.`;

interface CommandLine {
  chosen: readonly string[];
  json: boolean;
  recorded: boolean;
  options: Options;
}

function options(): CommandLine {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean', default: false },
        quick: { type: 'boolean', default: false },
        device: { type: 'string', default: 'auto' },
        record: { type: 'boolean', default: false },
        explain: { type: 'boolean', default: false },
        write: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) {
      console.log(usage);
      process.exit(0);
    }
    const unknown = positionals.find((name) => !(names as readonly string[]).includes(name));
    if (unknown !== undefined) throw new Error(`there is no benchmark '${unknown}'`);
    const { name: device, family } = openDevice(values.device);
    const others = family === 'host' ? accelerator : processor;
    const usual = names.filter((name) => !named.includes(name) && !others.includes(name));
    const no = values.record ? refusal(device) : null;
    if (no !== null) throw new Error(no);
    if (values.record && values.quick) throw new Error('--quick figures are not recorded');
    if (values.explain && (!/^(tick|traced)$/.test(positionals.join()) || values.record))
      throw new Error("--explain is of 'tick' or 'traced' alone, and its figures are not recorded");
    if (
      values.write &&
      (positionals.join() !== 'products' || values.quick || others === accelerator)
    )
      throw new Error("--write is of 'products' on a GPU alone, and not of --quick figures");
    // A process decides only once how many cores share its work, and these set that to one.
    const single = positionals.find((name) => name === 'torch' || name === 'traced');
    if (single && positionals.length > 1 && family === 'host' && !process.env.HOTSLOT_CORES)
      throw new Error(
        `'${single}' is of one core and the others of all: run it alone, or set HOTSLOT_CORES for all of them`,
      );
    if (
      positionals.includes('torch-tf32') &&
      (family === 'host' || process.env.NVIDIA_TF32_OVERRIDE !== '1')
    )
      throw new Error(
        "'torch-tf32' is for a GPU whose cuBLAS reads NVIDIA_TF32_OVERRIDE=1 when it starts: set it, and name the --device",
      );
    const chosen = positionals.length > 0 ? positionals : usual;
    return {
      chosen,
      json: values.json,
      recorded: values.record,
      options: {
        ...{ device, quick: values.quick },
        ...{ explained: values.explain, writes: values.write },
      },
    };
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}

/**
 * Keeps a GPU busy for half a second before a benchmark. An idle GPU lowers its clocks and the
 * speed of its PCIe link.
 */
async function warmUp(name: string): Promise<void> {
  using device = openDevice(name);
  using stream = device.createStream();
  for (const end = performance.now() + 500; performance.now() < end; await stream.synchronize())
    stream.launch('spin', { wholes: [1000] });
}

const { chosen, json, recorded, options: settings } = options();
const figures: Figure[] = [];
const spreads: Record<string, Spread> = {};
if (!json)
  console.log(
    `${cpus()[0]?.model.trim()}, ${cpus().length} cores, Node ${process.versions.node}\n`,
  );
const quiet = await Quiet.open();
for (const bench of chosen) {
  const { run } = (await import(`./${bench}.js`)) as { run: Benchmark };
  if (!settings.quick && !settings.device.startsWith('host')) await warmUp(settings.device);
  quiet.look();
  const first = quiet.mark;
  await run((figure) => {
    const full: Figure = { bench, ...figure, spread: quiet.around() };
    figures.push(full);
    console.log(json ? JSON.stringify(full) : row(full));
  }, settings);
  quiet.around();
  spreads[bench] = spreadOf(quiet.looks, first);
  if (!json) console.log(`${bench.padEnd(14)} the machine meanwhile: ${told(spreads[bench])}\n`);
}
await quiet.close();
if (recorded) {
  const { refused, kept } = judged(settings.device, figures, spreads);
  const no = unquiet(refused);
  for (const bench of Object.keys(refused)) delete spreads[bench];
  const left = figures.filter((figure) => figure.bench in spreads && !kept.includes(figure));
  for (const { bench, case: of, metric } of left)
    console.error(
      `not recorded, since its own rounds lie too far apart: ${bench}, ${of}, ${metric}`,
    );
  if (Object.keys(spreads).length > 0) {
    const command = `npm run bench -- ${process.argv.slice(2).join(' ')}`;
    const { file, written } = record(settings.device, command, kept, spreads);
    // Some benchmarks draw pictures of the recorded figures.
    for (const bench of Object.keys(spreads)) {
      const { recorded } = (await import(`./${bench}.js`)) as {
        recorded?: (written: DeviceRecord) => Promise<void>;
      };
      await recorded?.(written);
    }
    if (!json) console.log(`recorded in ${file}: ${Object.keys(spreads).join(', ')}`);
  }
  if (no !== null) {
    console.error(no);
    process.exitCode = 1;
  }
}
const aimed = figures.filter((figure) => figure.goal !== undefined);
if (!json && aimed.length > 0) {
  const missed = aimed.filter((figure) => !meets(figure, figure.goal!));
  console.log(
    `${aimed.length - missed.length} of ${aimed.length} goals met${missed.length > 0 ? '; missed by:' : ''}`,
  );
  for (const { bench, case: of, metric, goal } of missed)
    console.log(`  ${bench}: ${of}, ${metric} (${asked(goal!)})`);
}
if (json)
  console.log(
    JSON.stringify({ summary: true, figures: figures.length, node: process.versions.node }),
  );

/** Returns a goal as text. */
function asked(goal: Goal): string {
  if ('ratio' in goal) return `${round(goal.ratio)} ×`;
  return 'least' in goal ? `at least ${round(goal.least)}` : `at most ${round(goal.most)}`;
}

function row({ bench, case: of, metric, unit, spread, ...figure }: Figure): string {
  const ratio = figure.ratio === undefined ? '' : `${figure.ratio.toFixed(2)} ×`;
  const baseline =
    figure.baseline === undefined
      ? ''
      : `(${round(figure.baseline)}${within(figure.baselineQuartiles)})`;
  const named = [
    bench.padEnd(14),
    of.padEnd(64),
    metric.padEnd(22),
    round(figure.value).padStart(10),
  ].join(' ');
  const still = spread
    ? `${spread.numbers.toFixed(2)}/${spread.memory.toFixed(2)}${isWide(spread) ? '!' : ''}`
    : '';
  const goal = figure.goal
    ? `  goal ${asked(figure.goal)}${meets(figure, figure.goal) ? '' : ', missed'}`
    : '';
  return `${named} ${unit.padEnd(5)} ${within(figure.quartiles).padEnd(18)} ${ratio.padStart(8)} ${baseline.padEnd(20)} ${still}${goal}`;
}

/** Returns the quartiles as text, or an empty string if the figure has none. */
function within(quartiles: Figure['quartiles']): string {
  return quartiles ? ` ${quartiles.map(round).join('–')}` : '';
}

function round(value: number): string {
  return value >= 1000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}
