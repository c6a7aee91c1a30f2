/**
 * In a process of its own, on a software driver: ticks of an autonomous run whose actors have
 * threads of their own. Prints the calls of the driver for a tick, without questions: how often
 * those are asked is the device's affair.
 */
import { openDevice, ReplayPipeline } from '../../src/index.ts';
import { counts, software } from '../drivers/talk.ts';
import { counter, filled, SAMPLE } from '../pipeline/fixture.ts';
import { TESTED } from '../rig/tested-device.ts';

const TICKS = 500;

await using device = openDevice(TESTED);
const pipeline = await ReplayPipeline.open({
  buffer: filled(),
  device: device.name,
  sampleCount: SAMPLE,
});
counter(pipeline);
const driver = await software();
await pipeline.run({ ticks: 100 });
const before = counts(driver.calls());
await pipeline.run({ ticks: TICKS });
// The main thread's own calls of a run are few: they are no tick's.
const perTick = Object.entries(counts(driver.calls()))
  .filter(([name]) => !/Query|Synchronize/.test(name))
  .map(([name, count]) => [name, Math.round((count - (before[name] ?? 0)) / TICKS)] as const)
  .filter(([, count]) => count > 0);
console.log(JSON.stringify({ driver: Object.fromEntries(perTick) }));
await pipeline.close();
