/**
 * Tests that a training which stops in the middle of a cycle of phases continues to the bits of an unbroken
 * training. It stops after a save, or because a launch fails.
 */
import { expect } from 'chai';
import { captureGraph } from '../../../src/device/graph/shared.ts';
import type { LearnerState } from '../../../src/entries/learner.ts';
import type { Stream } from '../../../src/index.ts';
import { Latch } from '../../rig/latch.ts';
import { LaunchedStream } from '../../rig/launched-stream.ts';
import { rejection } from '../../rig/refusal.ts';
import { ON_HOST } from '../../rig/tested-device.ts';
import {
  BLOCKS,
  Cycle,
  countersAfter,
  type Mode,
  modes,
  type Trained,
  textsOf,
  trained,
} from './cycle.ts';

const UPDATES = 12;

describe('a training that stops in the middle of a cycle', () => {
  let unbroken: Trained;
  before(async () => {
    unbroken = await trained('eager', UPDATES);
  });

  it('has the counters of its phases, and the same bits in each mode', async () => {
    expect(unbroken.state).to.deep.include(countersAfter(UPDATES));
    expect(unbroken.state.numbers).to.deep.equal(unbroken.reports.at(-1));
    for (const mode of modes) {
      const { state, reports } = await trained(mode, UPDATES);
      expect(state, mode).to.deep.equal(unbroken.state);
      if (mode !== 'cycles') expect(reports, mode).to.deep.equal(unbroken.reports);
    }
  });

  for (const saved of modes)
    for (const resumed of modes) {
      const whole = [saved, resumed].includes('cycles');
      it(`continues to the bits of an unbroken run: saved by ${saved}, resumed by ${resumed}`, async () => {
        for (const stopped of whole ? [4] : [1, 3]) {
          const states: LearnerState[] = [];
          const { reports } = await trained(saved, stopped, {
            after: async (_, learner) => void states.push(await learner.state()),
          });
          const state = states.at(-1)!;
          expect(textsOf(state)).to.deep.include(countersAfter(stopped));
          const rest = await trained(resumed, UPDATES, {
            begin: async (learner) => {
              learner.loadState(state);
              expect(textsOf(await learner.state())).to.deep.equal(textsOf(state));
            },
          });
          expect(rest.state).to.deep.equal(unbroken.state);
          if (whole) continue;
          expect(textsOf(state).numbers).to.deep.equal(reports.at(-1));
          expect([...reports, ...rest.reports]).to.deep.equal(unbroken.reports);
        }
      });
    }
});

describe('an update that fails', () => {
  const SAVED = 3;
  /** The update that fails runs both phases, and the copy of the actor changes. */
  const FAILS = 4;
  let cycle: Cycle;
  let saved: LearnerState;
  let wanted: Trained['state'];
  beforeEach(async () => {
    wanted ??= (await trained('eager', FAILS + 2)).state;
    cycle = new Cycle();
    await cycle.learner.ready;
    await run(0, SAVED);
    saved = await cycle.learner.state();
  });
  afterEach(() => cycle.close());

  /** Runs the updates [from, to), or cycles of them. */
  async function run(from: number, to: number, mode: Mode = 'eager'): Promise<void> {
    const one = cycle.runs(mode);
    for (let update = from; update < to; ) update = one(update);
    await cycle.rig.stream.synchronize();
  }
  const state = async () => textsOf(await cycle.learner.state());
  /** Loads the saved state, and expects that training continues to the bits of an unbroken run. */
  async function continues(mode?: Mode): Promise<void> {
    cycle.learner.loadState(saved);
    await run(SAVED, FAILS + 2, mode);
    expect(await state()).to.deep.equal(wanted);
  }

  /** Returns a stream that throws before the launch of this kernel, or before the launch of this number. */
  function refusing(refused: string | number, stream = cycle.rig.stream): LaunchedStream {
    let at = 0;
    return new LaunchedStream(stream, (kernel) => {
      if (kernel === refused || at++ === refused) throw new Error(`refused: ${kernel}`);
    });
  }
  /** Returns the kernels of the update that fails. */
  function kernels(): string[] {
    const stream = new LaunchedStream(cycle.rig.stream);
    cycle.update(stream);
    return stream.launched.map(({ kernel }) => kernel);
  }
  /** Captures an update whose launch is refused, as a pipeline does. */
  function refusedCapture(refused: string | number, mode: Mode): void {
    const how = { what: 'the capture', pool: null };
    const capture = (stream: Stream) => cycle.update(refusing(refused, stream), mode);
    expect(() => captureGraph(cycle.rig.device, how, capture)).to.throw(
      'the capture failed: refused: ',
    );
  }

  it('leaves counters and scalars unchanged when step_end throws, and continues after a load', async () => {
    const before = await state();
    cycle.feed(SAVED);
    expect(() => cycle.update(refusing('step_end'))).to.throw('refused: step_end');
    const after = await state();
    // The generator lacks the last draw of the update.
    const [seed, offset] = before.generator as [string, string];
    const generator = [seed, String(Number(offset) + BLOCKS)];
    expect(after).to.deep.include({ ...countersAfter(SAVED), generator });
    // A launch of its own computes the loss of the temperature, and step_end the other scalars.
    const summed = cycle.learner.scalars.map((name) => name !== 'temperatureLoss');
    const sums = ({ numbers }: Trained['state']) => numbers!.filter((_, i) => summed[i]);
    expect(sums(after)).to.deep.equal(sums(before));
    for (const name of ['critics.1.0.weight', 'targets.0.0.weight', 'logAlpha'])
      expect(after[name], name).to.not.deep.equal(before[name]);
    await continues();
  });

  it('continues to equal bits after a load, whichever launch throws', async () => {
    await run(SAVED, FAILS);
    const all = kernels();
    expect(all.at(-1)).to.equal('step_end');
    expect(all.filter((kernel) => /^adam/.test(kernel))).to.have.length(2);
    for (const at of all.keys()) {
      cycle.learner.loadState(saved);
      await run(SAVED, FAILS);
      expect(() => cycle.update(refusing(at))).to.throw(`refused: ${all[at]}`);
      await continues();
    }
  });

  for (const mode of modes.filter((each) => each !== 'eager'))
    it(`changes nothing in a capture of ${mode}, and the next capture has the bits of eager updates`, async () => {
      await run(SAVED, FAILS);
      saved = await cycle.learner.state();
      const stream = new LaunchedStream(cycle.rig.stream);
      stream.beginCapture();
      cycle.update(stream, mode);
      stream.endCapture().close();
      for (const at of ['step_end', ...stream.launched.keys()]) refusedCapture(at, mode);
      expect(await state()).to.deep.equal(textsOf(saved));
      await run(FAILS, FAILS + 2, mode);
      expect(await state()).to.deep.equal(wanted);
    });

  it('continues to equal bits after a load when the device fails before step_end', async function () {
    if (!ON_HOST) return this.skip(); // on other devices, a failed stream may lose the device
    await run(SAVED, FAILS);
    cycle.feed(FAILS);
    await cycle.rig.stream.synchronize();
    using bad = cycle.rig.device.createStream();
    // The latch holds the stream until the whole update is enqueued.
    using latch = new Latch(cycle.rig.device).hold(bad);
    cycle.update(
      new LaunchedStream(bad, (kernel) => {
        if (kernel === 'step_end') bad.launch('fail');
      }),
    );
    const failed = rejection(bad.synchronize());
    latch.open();
    const error = await failed;
    expect(error.code).to.equal('ERR_HOTSLOT_DEVICE');
    expect((await state()).updates).to.deep.equal([String(FAILS)]);
    await continues();
  });

  it('leaves a learner that closes, and another learner continues', async () => {
    await run(SAVED, FAILS);
    expect(() => cycle.update(refusing('step_end'))).to.throw('refused: step_end');
    refusedCapture('step_end', 'cycles');
    cycle.close();
    expect(cycle.learner.closed).to.equal(true);
    cycle = new Cycle();
    await continues();
  });
});
