// Prints a summary of a run of run.sh from the result files that exist. Usage: node table.mjs
// FOLDER, in a built tree.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath, pathToFileURL } from 'node:url';

const [folder] = process.argv.slice(2);
const tree = fileURLToPath(new URL('../../', import.meta.url));
const { differences, factsOf } = await import(
  pathToFileURL(join(process.cwd(), 'dist/bench/facts.js')).href
);

const text = (path) => (existsSync(path) ? readFileSync(path, 'utf8') : '');
/** Returns the lines that are JSON. A step that was ended may have written half a line. */
const lines = (name) =>
  text(join(folder, name))
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line)];
      } catch {
        return [];
      }
    });
const short = (value) =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);

/** What each step shows if it is ok. */
const shows = {
  look: 'the bare driver starts',
  facts: 'the driver answers all questions that its documents leave open',
  'facts-warm': 'the same once the kernels are compiled',
  kernels: 'the kernels assemble for this card',
  doctor: 'Hotslot opens the device, which passes its self-test',
  same: 'kernels compute what the processor computes, bit by bit',
  pinned: 'pinned memory is given back, and stays the parent’s through forks',
  contract: 'the device does what every device of Hotslot must do',
  events: 'events inside graphs are done when the graph is',
  above: 'pipelines, learners, graphs and halos work on the device',
  memcheck: 'no kernel reads or writes outside its memory',
  lost: 'a failing kernel costs the process the card, each call says so, all can be closed',
  after: 'nothing is left on the card',
  copy: 'copies to the device from pinned memory',
  calls: 'what the driver’s own calls cost',
  train: 'CartPole is learned',
  torch: 'updates and whole steps, compared with PyTorch',
  peers: 'batches from the host, compared with PyTorch',
  'torch-tf32': 'updates with TF32 products, compared with PyTorch',
};

/** Prints which device ran, with the date. */
function tellDevice() {
  const { 'loading.device': card, 'loading.cuda': cuda } = {
    ...factsOf(text(join(folder, 'facts.jsonl'))),
  };
  const version =
    typeof cuda === 'number' ? `, CUDA ${Math.floor(cuda / 1000)}.${(cuda % 1000) / 10}` : '';
  console.log(
    `Hotslot, ${new Date().toISOString().slice(0, 10)}${card ? `, ${card}${version}` : ''}`,
  );
}

/**
 * Prints how many facts match those of an H100, the first card that was asked, and each fact that
 * differs.
 */
function tellFacts(name) {
  const told = factsOf(text(join(folder, `${name}.jsonl`)));
  if (Object.keys(told).length === 0) return;
  const card = factsOf(text(join(tree, 'bench/results/h100/facts.jsonl')));
  const value = (of) =>
    typeof of === 'number' && !Number.isInteger(of) ? Number(of.toPrecision(3)) : (of ?? 'nothing');
  const asked = Object.keys(told).filter((each) => each in card);
  const other = differences(told, card).filter(
    (each) => asked.includes(each) || each.endsWith('.end'),
  );
  const more = Object.keys(told).filter((each) => !(each in card));
  console.log(
    `${name}: the driver does as that of an H100 did (27 November 2026) in ${asked.length - other.length} of ${asked.length} facts. ` +
      'What differs is no fault: bench/native/cuda_facts.hpp says what rests on it',
  );
  for (const each of other)
    console.log(`  ${each} = ${value(told[each])} (H100: ${value(card[each])})`);
  if (more.length > 0)
    console.log(
      `  not asked of the H100: ${more.map((each) => `${each} = ${value(told[each])}`).join(', ')}`,
    );
}

function tellTests(name) {
  const all = lines(`tests-${name}.jsonl`);
  const units = all.filter(({ part }) => part);
  if (units.length === 0) return;
  const sum = (of) => units.reduce((total, unit) => total + of(unit), 0);
  const [passed, failed, out] = [
    sum((u) => u.passes),
    sum((u) => u.failures.length),
    sum((u) => u.pending),
  ];
  const end = all.some(({ summary }) => summary)
    ? ''
    : '; the step ended before its last tests ran';
  const pending = out > 0 ? `, ${out} left out (their titles say why)` : '';
  console.log(`tests, ${name}: ${passed} passed, ${failed} failed${pending}${end}`);
  const failures = units.flatMap((unit) => unit.failures);
  for (const { title, error, alone } of failures.slice(0, 6))
    console.log(
      `  failed: ${title}${alone ? ` (${alone} in a process of its own)` : ''}: ${error.split('\n')[0].slice(0, 200)}`,
    );
  if (failures.length > 6) console.log(`  and ${failures.length - 6} more in tests-${name}.jsonl`);
}

/** Prints all comparisons with PyTorch in one table. */
function tellPeers(figures) {
  if (figures.length === 0) return;
  console.log('times compared with PyTorch, µs: where the ratio is above 1, Hotslot is faster');
  console.log(`${'ratio'.padStart(9)} ${'Hotslot'.padStart(9)} ${'PyTorch'.padStart(9)}`);
  for (const { case: what, metric, value: ours, baseline, ratio } of figures) {
    const cells = [`${ratio.toFixed(2)} ×`, short(ours), short(baseline)].map((cell) =>
      cell.padStart(9),
    );
    console.log(`${cells.join(' ')}  a ${metric.replace('time per ', '')}: ${what}`);
  }
}

/**
 * Prints the lines that run.sh wrote for its steps. For a step that ran more than once, prints the
 * last line.
 */
function tellSteps() {
  const last = new Map();
  for (const line of text(join(folder, 'steps.txt')).split('\n').filter(Boolean)) {
    const name = line.startsWith('!!') ? line : line.split(' ')[0];
    last.delete(name);
    last.set(name, line);
  }
  for (const [name, line] of last) {
    const whole = name in shows && line.length < 50;
    console.log(whole ? `${line.trimEnd().padEnd(47)} ${shows[name]}` : line);
  }
  const steps = [...last].filter(([name]) => !name.startsWith('!!'));
  const ended = (how) => steps.filter(([, line]) => how.test(line.slice(22))).map(([name]) => name);
  const [ok, out] = [ended(/^ok /), ended(/^left out/)];
  const not = steps
    .map(([name]) => name)
    .filter((name) => !ok.includes(name) && !out.includes(name));
  if (steps.length === 0) return;
  const said = [
    `${ok.length} of ${steps.length} steps are ok`,
    ...(out.length > 0 ? [`left out: ${out.join(', ')}`] : []),
    ...(not.length > 0 ? [`not ok: ${not.join(', ')}`] : []),
  ];
  console.log(said.join('; '));
}

tellDevice();
tellFacts('facts');
tellFacts('facts-warm');
for (const name of ['same', 'pinned', 'contract', 'above', 'lost']) tellTests(name);
const { allocatedMs, registeredMs } = lines('copy.json').at(-1) ?? {};
if (allocatedMs)
  console.log(
    `a copy to the device: ${short(allocatedMs)} ms from pinned memory of the driver's, ${short(registeredMs)} ms from the caller's`,
  );
const { device, cuda, ...calls } = lines('calls.json').at(-1) ?? {};
if (device)
  console.log(
    `the bare driver's calls, µs of the caller: ${Object.entries(calls)
      .filter(([name]) => !name.startsWith('burst'))
      .map(([name, us]) => `${name} ${short(us)}`)
      .join(', ')}`,
  );
const training = lines('train.jsonl').at(-1);
if (training) {
  const { solved, seconds, ticks, meanReturn } = training;
  console.log(
    `training: CartPole is ${solved ? '' : 'not '}solved after ${short(seconds)} s, ${ticks} ticks; mean return ${meanReturn}`,
  );
}
const figures = readdirSync(folder)
  .filter((name) => name.startsWith('bench-') && name.endsWith('.jsonl'))
  .flatMap((name) => lines(name))
  .filter(({ bench }) => bench);
const compared = ['torch', 'torch-tf32', 'peers'];
tellPeers(compared.flatMap((name) => figures.filter(({ bench }) => bench === name)));
const others = figures.filter(({ bench }) => !compared.includes(bench));
if (others.length > 0)
  console.log(
    'benchmark | case, and what it is compared with | what | Hotslot (the other; above 1 ×, Hotslot is better)',
  );
for (const { bench, case: what, metric, value: of, unit, baseline, ratio } of others) {
  const other = baseline === undefined ? '' : ` (${short(baseline)}; ${ratio.toFixed(2)} ×)`;
  console.log(`${bench} | ${what} | ${metric} | ${short(of)} ${unit}${other}`);
}
tellSteps();
