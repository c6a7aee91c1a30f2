/**
 * Runs in its own process on a software driver: an autonomous run whose actors have their own
 * threads. Prints the driver calls of a tick without queries, because their number depends on the
 * device.
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
// The main thread makes few calls for a whole run. They round to 0 per tick.
const perTick = Object.entries(counts(driver.calls()))
  .filter(([name]) => !/Query|Synchronize/.test(name))
  .map(([name, count]) => [name, Math.round((count - (before[name] ?? 0)) / TICKS)] as const)
  .filter(([, count]) => count > 0);
console.log(JSON.stringify({ driver: Object.fromEntries(perTick) }));
await pipeline.close();
