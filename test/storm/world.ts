/**
 * The process of a storm: `world.js '<WorldOptions>'`. It runs two pipelines with all their parts,
 * in another placement in each life. It causes the faults that its director asks for, and reports
 * errors. The director may kill it at any time and start it again.
 */
import { readdirSync, unlinkSync } from 'node:fs';
import { type Monitor, serveMonitor } from '../../src/entries/monitor.ts';
import { openDevice, type Placement, type ReplayPipeline, type RowsKept } from '../../src/index.ts';
import { counts, software } from '../drivers/talk.ts';
import { type Held, held, leakedSince } from './leaks.ts';
import { openRows, type RowsSide } from './rows-side.ts';
import type { SideOptions } from './side.ts';
import { Stack } from './stack.ts';
import { openSteps, type StepsSide } from './steps-side.ts';
import type { FromWorld, ToWorld, WorldOptions } from './words.ts';

const options = JSON.parse(process.argv[2]!) as WorldOptions;
const say = (said: FromWorld) => void process.send?.(said);
const wrong = (text: string) => say({ wrong: text });
/** Exit code: the process must be started again, because its device was lost. */
const AGAIN = 75;
/** Number of lives after which only a leak makes the process larger. */
const SETTLED = 4;
/** Time after a disk fault during which a failed save is no error. */
const DISK_MS = 5000;

const placements: readonly Placement[] = [
  [['pack'], ['submit'], ['poll'], ['replay']],
  'auto',
  [
    ['pack', 'replay'],
    ['submit', 'poll'],
  ],
  'inline',
  [['pack', 'submit', 'poll', 'replay']],
];
const kept: readonly RowsKept[] = ['host', 'device'];
/**
 * Each side has another placement in each life. Where rows are kept stays the same, because a
 * checkpoint depends on it.
 */
const chosen = (life: number) => ({
  steps: { placement: placements[(options.seed + life) % 5]!, rows: kept[options.seed % 2]! },
  rows: {
    placement: placements[(options.seed + 2 * life + 1) % 5]!,
    rows: kept[(options.seed >> 1) % 2]!,
  },
});

/**
 * The software driver whose calls fail. It keeps the device open, with what a device has until its
 * last close.
 */
const driver = options.device === 'host:0' ? null : await software();

let sides: { steps: StepsSide; rows: RowsSide } | null = null;
let stage = 'begins';
let over: 'life' | 'process' | null = null;
let ending = () => {};
let diskUntil = 0;
let armed = false;

/** Sends a command to a shim. Returns whether it was done: unlink() then fails with EEXIST. */
function toShim(words: string): boolean {
  try {
    unlinkSync(words);
  } catch (error) {
    return (error as { code?: string }).code === 'EEXIST';
  }
  return false;
}
function diskGoesOn(): void {
  toShim('fault:over');
}

const deeds: Record<
  string,
  (pick: number, size: number, ms: number) => string | null | Promise<string | null>
> = {
  terminate(pick) {
    const threads = sides ? [...sides.steps.threads(), ...sides.rows.threads()] : [];
    if (threads.length === 0) return null;
    const thread = threads[pick % threads.length]!;
    sides!.rows.ended(thread);
    void thread.terminate();
    return `thread ${pick % threads.length} of ${threads.length}: ${sides!.steps.nameOf(thread) ?? sides!.rows.nameOf(thread)}`;
  },
  freeze(pick, _, ms) {
    const threads = readdirSync('/proc/self/task').map(Number);
    const thread = threads[pick % threads.length]!;
    return toShim(`storm:freeze:${thread}:${ms}`) ? `thread ${thread} for ${ms} ms` : null;
  },
  disk(pick, _, ms) {
    const mode = ['fail-full', 'fail-io', 'fail-read-only'][pick % 3]!;
    diskUntil = performance.now() + ms + DISK_MS;
    toShim(`fault:${mode}:${(pick >> 3) % 20}`);
    setTimeout(diskGoesOn, ms).unref();
    return `${mode} for ${ms} ms`;
  },
  clock: (_, __, ms) => (toShim(`storm:clock:${ms}`) ? `${ms} ms ahead` : null),
  driver(pick) {
    const names = Object.keys(counts(driver!.calls()));
    const name = names[pick % names.length]!;
    armed = true;
    driver!.fail(`${name}:${1 + ((pick >> 8) % 3)}`);
    return name;
  },
};

process.on('message', async (told: ToWorld) => {
  if ('end' in told) {
    over = told.end;
    ending();
    return;
  }
  const { fault, id, pick, size, ms } = told;
  const to = await deeds[fault]!(pick, size, ms);
  if (options.verbose)
    process.stderr.write(`${(performance.now() / 1000).toFixed(2)} s: ${fault} ${to}\n`);
  say({ done: id, to });
});
process.once('disconnect', () => process.exit());
// Each restart of a collector emits a warning, which is expected here.
process.on('warning', () => {});

async function life(number: number): Promise<Record<string, number>> {
  const stack = new Stack();
  const end = new Promise<void>((resolve) => {
    ending = resolve;
  });
  if (over) ending();
  const wasArmed = armed;
  armed = false;
  try {
    stage = 'opens';
    const device = stack.use(openDevice(options.device));
    const side = (name: 'steps' | 'rows'): SideOptions => ({
      device,
      wrong,
      folder: `${options.folder}/${name}`,
      ...chosen(number)[name],
      saved: (tick) => say({ saved: name, tick }),
      troubled: () => armed || performance.now() < diskUntil,
    });
    const steps = await openSteps(side('steps'), stack);
    say({ restored: 'steps', tick: steps.tick });
    const rows = await openRows({ ...side('rows'), url: options.url }, stack);
    stack.use(rows);
    say({ restored: 'rows', tick: rows.tick });
    sides = { steps, rows };
    const monitor: Monitor = stack.use(
      await serveMonitor({
        pipeline: steps.pipeline,
        collectors: steps.pool,
        checkpoint: steps.checkpoint,
      }),
    );
    stage = 'runs';
    say({ up: number, monitor: monitor.url });
    const looking = setInterval(() => {
      steps.look();
      rows.look();
    }, 100);
    stack.use({ close: () => clearInterval(looking) });
    await Promise.race([
      end,
      Promise.all([steps.running, steps.pool.done, rows.running, rows.receiving, end]),
    ]);
    stage = 'comes to rest';
    clearInterval(looking);
    for (const each of [steps, rows]) each.stop.abort();
    await Promise.all([steps.running, rows.running, rows.receiving]);
    stage = 'saves';
    diskGoesOn();
    await Promise.all([steps.checkpoint.save(), rows.saved()?.save()]);
    stage = 'is looked at';
    await steps.checkpoint.close();
    await steps.pool.close();
    await rows.close();
    await Promise.all([steps.last(), rows.last()]);
    await steps.pipeline.close();
    steps.lookAtLeaves();
    const facts = (of: object, name: string) =>
      Object.fromEntries(
        Object.entries(of).map(([key, value]) => [`${name}.${key}`, value as number]),
      );
    return { ...facts(steps.facts(), 'steps'), ...facts(rows.facts(), 'rows') };
  } catch (error) {
    const {
      code,
      message,
      stack: where,
    } = error as { code?: string; message: string; stack?: string };
    if (stage === 'opens' && wasArmed) process.exit(AGAIN);
    if (!armed || !code?.startsWith('ERR_HOTSLOT_'))
      wrong(`life ${number} ended while it ${stage}: ${code} ${message} ${where}`);
    return { told: 1 };
  } finally {
    stage = 'closes';
    sides = null;
    diskGoesOn();
    if (armed) driver!.fail(null);
    await stack
      .close()
      .catch((error) => wrong(`life ${number} could not be closed: ${error?.stack ?? error}`));
  }
}

const told = (pipeline: ReplayPipeline): string =>
  `${pipeline.waitingFor()} (${pipeline
    .inspect()
    .slots.map(({ state }) => state)
    .join(' ')})`;
const beating = setInterval(() => {
  const progress = sides
    ? {
        steps: sides.steps.facts().ticks,
        rows: sides.rows.facts().ticks,
        received: sides.rows.facts().rows,
      }
    : {};
  const waits = sides
    ? [sides.steps, sides.rows].map(({ pipeline }) => told(pipeline)).join('; ')
    : '';
  say({ beat: stage, progress, waits });
}, 200);

// The CPU device keeps some handles for the whole process, so they are counted before. All other
// resources are compared with those after the first life, which starts the pools.
openDevice(options.device).close();
let before: Partial<Held> = driver === null ? { handles: held().handles } : { handles: Infinity };
let mostBytes = 0;
for (let number = 0; over !== 'process'; number++) {
  over = null;
  const facts = await life(number);
  stage = 'counts';
  const now = await leakedSince(before, wrong);
  if (number === 0) before = { ...now, handles: Math.min(before.handles!, now.handles) };
  mostBytes = Math.max(mostBytes, now.bytes);
  if (number < SETTLED) before = { ...before, bytes: number + 1 < SETTLED ? Infinity : mostBytes };
  say({ over: number, facts: { ...facts, ...now } });
}
clearInterval(beating);
process.disconnect();
