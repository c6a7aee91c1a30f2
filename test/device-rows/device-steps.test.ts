/**
 * Tests what the device does with a tick's lists, which the test writes by hand. Checks the source
 * of each gathered row, the places of fresh rows, and the order of gathers and writes.
 */
import { expect } from 'chai';
import { DeviceSteps } from '../../src/engine/device-rows/device-steps.ts';
import { checkSteps } from '../../src/engine/device-rows/options.ts';
import { BatchSource } from '../../src/engine/pipeline/source.ts';
import { openDevice, TrajectoryBuffer } from '../../src/index.ts';
import { TESTED } from '../rig/tested-device.ts';

describe('DeviceSteps.draw()', () => {
  it('gathers a row before the same tick overwrites it, and the new row in the next tick', async () => {
    const fields = { obs: { shape: [4], observation: true } } as const;
    const buffer = TrajectoryBuffer.create({ capacity: 8, lanes: 1, fields });
    const source = new BatchSource({ buffer, view: buffer.transitions(), sampleCount: 3 });
    const { steps } = source;
    const { layout } = steps!;
    using device = openDevice(TESTED);
    using slot = device.allocate({
      shape: [layout.freshAt + layout.most * steps!.stepBytes],
      dtype: 'uint8',
    });
    using head = device.allocate({ shape: [1], dtype: 'int32' });
    const checked = checkSteps({ ...steps!, ...layout });
    const of = {
      device,
      checked,
      layout,
      rows: 3,
      slots: [slot],
      heads: [head],
      statistics: () => ({}) as never,
    };
    using kept = new DeviceSteps(of);
    const stream = device.currentStream;
    const obs = layout.gathered.get('obs')!;
    const nextObs = layout.gathered.get('nextObs')!;
    const gathered = async (column: typeof obs) =>
      Array.from(
        await kept.batch.view({ shape: [12], offset: column.at / 4, dtype: 'float32' }).toArray(),
      );
    /**
     * Runs a tick. `brings` has fresh rows with their places, and `now` and `next` are the lists of
     * the two columns.
     */
    const tick = (
      brings: readonly (readonly [place: number, value: number])[],
      now: number[],
      next: number[],
    ) => {
      head.write(Int32Array.of(brings.length));
      const many = brings.length;
      const values = Float32Array.from(brings.flatMap(([, value]) => Array(4).fill(value)));
      slot.view({ shape: [4 * many], offset: layout.freshAt / 4, dtype: 'float32' }).write(values);
      const places = Int32Array.from(brings.map(([place]) => place));
      slot
        .view({ shape: [many], offset: layout.freshAt / 4 + 4 * many, dtype: 'int32' })
        .write(places);
      for (const [column, lists] of [
        [obs, now],
        [nextObs, next],
      ] as const)
        slot
          .view({ shape: [3], offset: column.list / 4, dtype: 'int32' })
          .write(Int32Array.from(lists));
      kept.draw(stream, 0);
    };
    const rows = (...values: number[]) =>
      values.flatMap((value) => Array(4).fill(value) as number[]);
    const fresh = (which: number) => 8 + which;
    tick([[3, 10], [5, 20]], [fresh(0), fresh(1), -1], [fresh(1), fresh(0), fresh(0)]); // biome-ignore format: a tick a line
    expect(await gathered(obs)).to.deep.equal(rows(10, 20, 0));
    expect(await gathered(nextObs)).to.deep.equal(rows(20, 10, 10));
    // Place 3 gets a row twice, in two laps of the ring. The first fresh row has place -1, so it is
    // not stored.
    tick([[-1, 30], [3, 40]], [3, fresh(1), fresh(0)], [5, 3, -2]); // biome-ignore format: a tick a line
    expect(await gathered(obs)).to.deep.equal(rows(10, 40, 30));
    expect(await gathered(nextObs), 'the last row is unchanged').to.deep.equal(rows(20, 10, 10));
    tick([[0, 50]], [3, 5, 0], [fresh(0), 3, 5]);
    expect(await gathered(obs)).to.deep.equal(rows(40, 20, 0));
    expect(await gathered(nextObs)).to.deep.equal(rows(50, 40, 20));
  });
});
