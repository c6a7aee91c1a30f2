/** Tests that masks of legal actions arrive from collectors on other machines as they were. */
import { expect } from 'chai';
import { unpackMasks } from '../../src/base/mask-bits.ts';
import { ReplayBuffer, TrajectoryBuffer } from '../../src/index.ts';
import { ACTIONS, legalOf, storedMask } from '../collect/masked.ts';
import { itAll } from '../rig/setting.ts';
import { host, learn, newRun, sharedServer, untilAsked } from './runs.ts';

const entry = new URL('../collect/masked.js', import.meta.url);
const ROWS = 400;

describe('masks from other machines', () => {
  const shared = sharedServer();

  itAll('arrive in rows, with those of final states', async () => {
    const run = newRun();
    const dims = { capacity: 50_000, obsDim: 4, actionDim: 1, actionMask: ACTIONS };
    const buffer = ReplayBuffer.offPolicy(dims);
    await learn({ url: shared.url, run, buffer: buffer as never, options: { environments: 3 } });
    const machine = await host({ url: shared.url, run, entry });
    await untilAsked('rows are there', () => buffer.ptr >= ROWS);
    await machine.close();
    const bytes = buffer.gather(
      Uint32Array.from({ length: ROWS }, (_, i) => i),
      new Uint8Array(ROWS * buffer.rowBytes),
    );
    const { obs, next_obs, dones, truncated, action_mask, next_action_mask } = buffer.layout
      .fields as Record<string, { offset: number; bytes: number }>;
    let terminal = 0;
    for (let row = 0; row < ROWS; row++) {
      const part = ({ offset, bytes: length }: { offset: number; bytes: number }) =>
        bytes.slice(row * buffer.rowBytes + offset, row * buffer.rowBytes + offset + length);
      const floats = (field: typeof obs) => new Float32Array(part(field!).buffer);
      const mask = (field: typeof obs) =>
        unpackMasks(new Uint32Array(part(field!).buffer), ACTIONS);
      const terminated = floats(dones)[0] === 1 && floats(truncated)[0] === 0;
      if (terminated) terminal++;
      expect(mask(action_mask)).to.deep.equal(legalOf(floats(obs)));
      expect(mask(next_action_mask)).to.deep.equal(storedMask(floats(next_obs), terminated));
    }
    expect(terminal).to.be.greaterThan(10);
  });

  itAll('arrive in steps, with those of final states', async () => {
    const run = newRun();
    const buffer = TrajectoryBuffer.create({
      capacity: 40_000,
      lanes: 2,
      fields: {
        obs: { shape: [4], observation: true },
        actionMask: { mask: ACTIONS, observation: true },
        actions: { shape: [] },
      },
    });
    await learn({ url: shared.url, run, buffer: buffer as never, options: {} });
    const machine = await host({ url: shared.url, run, entry, lanes: 2 } as never);
    await untilAsked('steps are there', () => buffer.ptr >= ROWS);
    await machine.close();
    const view = buffer.transitions();
    const sample = buffer.sample({ view, seed: 1, count: ROWS });
    for (let row = 0; row < ROWS; row++) {
      const of = <T extends Float32Array | Uint8Array>(values: T, size: number) =>
        values.slice(row * size, (row + 1) * size) as T;
      const terminated = sample.terminated[row] === 1;
      expect(of(sample.actionMask, ACTIONS)).to.deep.equal(legalOf(of(sample.obs, 4)));
      expect(of(sample.nextActionMask, ACTIONS)).to.deep.equal(
        storedMask(of(sample.nextObs, 4), terminated),
      );
    }
  });
});
