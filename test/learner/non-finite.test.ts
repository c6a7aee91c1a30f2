/** Tests firstNonFinite(), which finds the operation that wrote the first NaN or infinity. */
import { expect } from 'chai';
import { openDevice } from '../../src/device/open.ts';
import { DqnLearner } from '../../src/entries/learner.ts';
import { firstNonFinite } from '../../src/learn/non-finite.ts';
import { itAlone } from '../rig/error-scope.ts';
import { rejection } from '../rig/refusal.ts';
import { TESTED } from '../rig/tested-device.ts';

describe('firstNonFinite()', () => {
  const device = openDevice(TESTED);
  after(() => device.close());

  it('returns the launch, the tensor and the non-finite inputs of the first NaN in an update', async () => {
    using learner = new DqnLearner(device, { obsDim: 3, actions: 2, hidden: [8], batchSize: 4 });
    const rows = (width: number) =>
      device.allocate({ shape: [8, width] }).write(new Float32Array(8 * width).fill(0.5));
    const batch = {
      obs: rows(3),
      nextObs: rows(3),
      actions: rows(1).write(new Float32Array(8)),
      rewards: rows(1),
      dones: rows(1),
      truncated: rows(1),
    };
    using out = device.allocate({ shape: [2] });
    const look = () => firstNonFinite(device, (stream) => learner.update(stream, batch, out));
    expect(await look()).to.equal(null);
    // Row 6 belongs to the second minibatch.
    const rewards = new Float32Array(8).fill(0.5);
    rewards[6] = Number.NaN;
    batch.rewards.write(rewards);
    const found = await look();
    expect(found).to.deep.include({
      kernel: 'td_loss_target',
      tensor: 'dq',
      index: 4,
      value: Number.NaN,
      before: ['rewards'],
    });
    expect(found?.operation).to.be.above(10);
    expect(found?.text).to.match(
      /^operation \d+, 'td_loss_target' for 'tdTarget\+tdLoss' of \S+non-finite\.test\S+, wrote NaN to element 4 of dq; r/,
    );
    // The update was applied, so its weights are NaN now. The first launch that reads them is
    // found.
    expect(await look()).to.deep.include({
      ...{ kernel: 'linear_act', tensor: 'y', before: ['weight', 'bias'] },
    });
    for (const tensor of Object.values(batch)) tensor.close();
  });

  it('finds an overflow of finite inputs, and non-finite copies and fills', async () => {
    using x = device.allocate({ shape: [4] }).write(Float32Array.of(1, 2, 3e38, 4));
    using y = device.allocate({ shape: [4] });
    const doubled = await firstNonFinite(device, (stream) => {
      stream.copy(y, x);
      stream.launch('axpby', { tensors: [y, x], wholes: [4], reals: [1, 0] });
      stream.launch('axpby', { tensors: [y, x], wholes: [4], reals: [1, 1] });
      stream.copy(x, y);
    });
    expect(doubled).to.deep.include({
      operation: 2,
      kernel: 'axpby',
      tensor: 'y',
      index: 2,
      before: [],
    });
    const filled = await firstNonFinite(device, (stream) => stream.fill(x, Number.NaN));
    expect(filled).to.deep.include({
      operation: 0,
      kernel: 'fill',
      tensor: 'to',
      index: 0,
      value: Number.NaN,
    });
    expect(await firstNonFinite(device, (stream) => stream.copy(y, x))).to.deep.include({
      kernel: 'copy',
      before: ['from'],
    });
  });

  it('checks only the elements that an operation reads or writes', async () => {
    using table = device.allocate({ shape: [3, 4] }).write(new Float32Array(12).fill(Number.NaN));
    using x = device.allocate({ shape: [6] }).write(new Float32Array(6).fill(1));
    const left = table.view({ shape: [3, 2], strides: [4, 1] });
    // The first launch reads two finite columns of four. The second overwrites a NaN without
    // reading it.
    const found = await firstNonFinite(device, (stream) => {
      stream.launch('copy2d', { tensors: [left, x], wholes: [3, 2, 4, 2] });
      stream.launch('axpby', {
        tensors: [table.view({ shape: [2], offset: 2 }), x],
        wholes: [2],
        reals: [1, 0],
      });
    });
    expect(found).to.equal(null);
    // The host writes the NaN between two operations.
    const between = await firstNonFinite(device, (stream) => {
      stream.launch('axpby', {
        tensors: [left.view({ shape: [2] }), x],
        wholes: [2],
        reals: [1, 0],
      });
      x.write(new Float32Array(6).fill(Number.POSITIVE_INFINITY), stream);
      stream.launch('axpby', {
        tensors: [left.view({ shape: [2] }), x],
        wholes: [2],
        reals: [1, 0],
      });
    });
    expect(between).to.deep.include({ operation: 1, kernel: 'axpby', before: ['x'] });
    // axpby adds to y, so the NaN was in y before.
    const kept = await firstNonFinite(device, (stream) => {
      x.write(new Float32Array(6).fill(1), stream);
      stream.launch('axpby', {
        tensors: [table.view({ shape: [1], offset: 11 }), x],
        wholes: [1],
        reals: [1, 1],
      });
    });
    expect(kept).to.deep.include({ operation: 0, before: ['y'] });
  });

  itAlone(
    TESTED,
    'leaves no unhandled rejection when the stream fails or the function returns a promise',
    async () => {
      const unhandled: unknown[] = [];
      const listen = (reason: unknown) => unhandled.push(reason);
      process.on('unhandledRejection', listen);
      try {
        using stream = device.createStream();
        using x = device.allocate({ shape: [4] });
        const failed = await rejection(() =>
          device.withStream(stream, () =>
            firstNonFinite(device, (on) => {
              on.launch('spin', { wholes: [60_000] });
              on.launch('fail');
              for (let i = 0; i < 20; i++)
                on.launch('axpby', { tensors: [x, x], wholes: [4], reals: [1, 0] });
            }),
          ),
        );
        expect(failed.code).to.equal('ERR_HOTSLOT_DEVICE');
        const thrown = async () => {
          throw new Error('later');
        };
        await rejection(() => firstNonFinite(device, thrown as never));
        await new Promise((resolve) => setImmediate(resolve));
        expect(unhandled).to.deep.equal([]);
      } finally {
        process.off('unhandledRejection', listen);
      }
    },
  );

  it('rejects if the function throws or returns a promise, or in a capture, and keeps the stream open', async () => {
    const failed = await rejection(() =>
      firstNonFinite(device, () => {
        throw new Error('mine');
      }),
    );
    expect(failed.message).to.equal('mine');
    const promised = await rejection(() => firstNonFinite(device, (async () => {}) as never));
    expect(promised.message).to.include('returned a promise');
    expect((await rejection(() => firstNonFinite(device, 3 as never))).message).to.include(
      'function',
    );
    using stream = device.createStream();
    stream.beginCapture();
    const captured = await rejection(() =>
      device.withStream(stream, () => firstNonFinite(device, () => {})),
    );
    expect(captured.code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
    stream.endCapture().close();
    let seen: { close(): void; closed: boolean } | undefined;
    await firstNonFinite(device, (watched) => {
      seen = watched;
    });
    seen?.close();
    expect([seen?.closed, device.currentStream.query()]).to.deep.equal([false, true]);
  });
});
