/**
 * Steps the four actors in one thread, tick by tick, and prints the costs of a tick. It runs in its
 * own process, and the costs are the same in every run. `calls` prints native calls, the bytes that
 * they copy, and calls of a software driver. `heap` prints the bytes that a tick allocates on the
 * JavaScript heap. It needs --expose-gc and a young generation that is never full.
 */
import { getHeapStatistics } from 'node:v8';
import type { Actor } from '../../src/engine/pipeline/actors.ts';
import { countAddons, tallyOf, uncounted } from './counted.ts';

const [what = 'calls', kind = 'rows'] = process.argv.slice(2);
if (what === 'calls') countAddons();
const { Bench } = await import('../actors/bench.ts');
const { nativeEvents } = await import('../../src/device/native.ts');
const { SlotState } = await import('../../src/engine/ring/slot.ts');
const { SAMPLE } = await import('../pipeline/fixture.ts');
const { BatchSource } = await import('../../src/engine/pipeline/source.ts');
const { prioritized, TrajectoryBuffer } = await import('../../src/index.ts');
const { TESTED } = await import('../rig/tested-device.ts');
const { counts, software } = await import('../drivers/talk.ts');

/** Creates a source of prioritized steps, whose priorities the update writes. */
function lanes() {
  const fields = { obs: { shape: [4], observation: true } } as const;
  const buffer = TrajectoryBuffer.create({ capacity: 1024, lanes: 4, fields });
  const writer = buffer.writer();
  for (let step = 0; step < 256; step++) {
    const at = step % 32 === 31 ? 1 : 0;
    const obs = new Float32Array(16).fill(step);
    const flags = { terminated: new Uint8Array(4).fill(at), truncated: new Uint8Array(4) };
    writer.add({ obs, finalObs: obs, rewards: new Float32Array(4).fill(1), ...flags });
  }
  return new BatchSource({
    buffer,
    view: buffer.transitions(),
    sampler: prioritized(),
    sampleCount: SAMPLE,
  });
}

const bench =
  kind === 'prioritized'
    ? new Bench(2, Number.POSITIVE_INFINITY, lanes(), ({ rewards }, { stream, priorities }) => {
        stream.copy(priorities!, rewards!);
      })
    : new Bench(2, Number.POSITIVE_INFINITY);
const { slots, ring } = bench;
const actors = bench.actors as Actor[];
const step = (role: number) => void actors[role]!.work();
const [pack, submit, poll, replay] = [0, 1, 2, 3] as const;
const copied = slots.backend.share().copied;
const spent = slots.spent.map((event) => (event as unknown as { handle: number }).handle);
const waitFor = (event: number) =>
  uncounted(() => nativeEvents().waitEvent(slots.device.handle, event, 10_000));

let at = 0;
/** Makes one tick and waits for its end, so that poll finds everything done at its first check. */
function tick(): void {
  const slot = at++ % 2;
  step(pack);
  step(submit);
  waitFor(copied[slot]!);
  for (let look = 0; ring.state(slot) === SlotState.Submitted; look++) {
    if (look > 1000) throw new Error('the copy is never over');
    step(poll);
  }
  step(replay);
  waitFor(spent[slot]!);
  for (let look = 0; ring.state(slot) === SlotState.Replaying; look++) {
    if (look > 1000) throw new Error('the update is never over');
    step(poll);
  }
}
const ticks = (many: number) => {
  for (let i = 0; i < many; i++) tick();
};

/** Returns the median of each count over many ticks, because a tick may need one check more. */
function middleOf(all: readonly Record<string, number>[]): Record<string, number> {
  const names = [...new Set(all.flatMap((one) => Object.keys(one)))].sort();
  const middle = (name: string) =>
    all.map((one) => one[name] ?? 0).sort((a, b) => a - b)[all.length >> 1]!;
  return Object.fromEntries(
    names.map((name) => [name, middle(name)]).filter(([, count]) => count !== 0),
  );
}

async function calls(): Promise<object> {
  ticks(50);
  const driver = TESTED.startsWith('host') ? null : await software();
  const tallies = Array.from({ length: 101 }, () => {
    const before = driver && counts(driver.calls());
    const tally = tallyOf(tick);
    const after = driver && counts(driver.calls());
    const asked = Object.entries(after ?? {}).map(
      ([name, count]) => [name, count - (before?.[name] ?? 0)] as const,
    );
    // How often a device must be queried, and the calls that each query makes, depend on the
    // device. They are left out.
    const driven = Object.fromEntries(
      asked.filter(
        ([name]) => !/Query|Synchronize|CtxGetCurrent|GetDevice$|ThreadExchange/.test(name),
      ),
    );
    return { ...tally, driven };
  });
  return {
    calls: middleOf(tallies.map((tally) => tally.calls)),
    bytes: middleOf(tallies.map((tally) => tally.bytes)),
    ...(driver && { driver: middleOf(tallies.map((tally) => tally.driven)) }),
  };
}

function heap(): object {
  const gc = globalThis.gc as () => void;
  const used = () => getHeapStatistics().used_heap_size;
  const [rounds, many] = [7, 4000];
  // Runs until everything is compiled.
  ticks(4 * many);
  const taken = Array.from({ length: rounds }, () => {
    gc();
    const before = used();
    ticks(many);
    return (used() - before) / many;
  });
  // Uses the median, because the engine may count allocations in blocks and may compile again.
  return { 'of the four actors': Math.round(taken.sort((a, b) => a - b)[rounds >> 1]!) };
}

const found = what === 'heap' ? heap() : await calls();
console.log(JSON.stringify(found));
bench.close();
