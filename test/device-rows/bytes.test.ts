/**
 * Tests how many bytes cross the bus for rows and steps that are stored on the device
 * (DeviceRows-9). A software driver counts the bytes.
 */
import { expect } from 'chai';
import { OUT_BYTES, PARAMS_BYTES } from '../../src/engine/ring/slot.ts';
import { prioritized, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { counts, software } from '../drivers/talk.ts';
import { TESTED } from '../rig/tested-device.ts';
import { FIELDS, numbered } from './numbered.ts';
import { addNumbered, LANES, numberedBuffer } from './numbered-steps.ts';

const ROWS = 256;
const TICKS = 64;
const DEPTH = 4;

/**
 * Runs ticks. Returns the bytes copied to the device during the run, and the bytes that each tick
 * copies to the host.
 */
async function moved(options: object) {
  const driver = await software();
  const now = () => {
    const { to_device = 0, to_host = 0 } = counts(driver.moved());
    return { toDevice: to_device, toHost: to_host };
  };
  const of = { device: TESTED, sampleCount: ROWS, depth: DEPTH, rows: 'device', ...options };
  const begin = now();
  await using made = await ReplayPipeline.open(of as never);
  made.capture((batch, { stream, priorities }) => {
    if (priorities) stream.copy(priorities, (batch as { rewards: typeof priorities }).rewards);
  });
  const captured = now();
  await made.run({ ticks: TICKS });
  // The driver counts a graph's copies when the graph is captured, once for each slot.
  const home = (captured.toHost - begin.toHost) / DEPTH;
  const { rowStride } = made.transferManifest;
  return {
    toDevice: now().toDevice - begin.toDevice,
    home,
    stats: made.ring!.stats(),
    stride: rowStride as number,
  };
}
const near = (got: number, want: number) =>
  expect(got / want, `${got} bytes instead of ${want}`).to.be.within(0.99, 1.01);

describe('device-rows/bytes', () => {
  before(function () {
    // Only the software drivers of CUDA and ROCm count bytes.
    if (!/^(cuda|rocm)/.test(TESTED)) this.skip();
  });

  it('uniform sampling copies each row to the device once, and one head per tick', async () => {
    const buffer = ReplayBuffer.create({ capacity: 1024, fields: FIELDS });
    buffer.add(numbered(0, 1024));
    const { toDevice, home, stats } = await moved({ buffer });
    expect(stats.ingestedRows).to.equal(1024);
    near(toDevice, 1024 * 64 + TICKS * PARAMS_BYTES);
    expect(home).to.equal(OUT_BYTES);
    // Each row was drawn sixteen times. Without rows on the device, every draw would copy the row.
    expect(toDevice / (TICKS * ROWS * 64)).to.be.below(0.0625 * 1.3);
  });

  for (const sampler of [undefined, prioritized] as const)
    it(`trajectories sampled ${sampler ? 'by priorities' : 'uniformly'} copy each step to the device once, and lists per tick`, async () => {
      const buffer = numberedBuffer(340);
      using writer = buffer.writer();
      addNumbered(writer, 0, 300);
      const view = buffer.transitions({ nStep: 3, stack: { obs: 4 } });
      const { toDevice, home, stats, stride } = await moved({ buffer, view, sampler: sampler?.() });
      expect(stats.ingestedRows).to.be.within(0.9 * LANES * 300, LANES * 340);
      // Bytes of a drawn row: reward, discount, two flags, number of steps, id. Then 4 bytes for
      // each list entry: four frames now and next, and one more place now and next.
      const row = 4 + 4 + 2 + 4 + 8 + 4 * (4 + 4 + 1 + 1) + (sampler ? 4 + 4 : 0);
      near(toDevice, stats.ingestedRows * (stride + 4) + TICKS * (PARAMS_BYTES + ROWS * row));
      expect(home).to.equal(OUT_BYTES + (sampler ? 4 * ROWS : 0));
    });
});
