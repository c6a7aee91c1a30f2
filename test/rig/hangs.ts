/**
 * Tests that hang. timed-out.long.test.ts runs them in another mocha process and reads their
 * errors.
 */
import { expect } from 'chai';
import { LearnerGroup, shareLearnerGroup } from '../../src/entries/ranks.ts';
import { CollectorPool, ReplayBuffer, ReplayPipeline } from '../../src/index.ts';
import { TESTED } from './tested-device.ts';
import { until } from './until.ts';

const buffer = () => ReplayBuffer.create({ capacity: 8, fields: { value: { shape: [2] } } });
const open = (depth: number) =>
  ReplayPipeline.open({ buffer: buffer(), device: TESTED, sampleCount: 1, depth });

describe('hangs', () => {
  let closed: ReplayPipeline;
  let left: LearnerGroup;
  const opened: AsyncDisposable[] = [];
  /**
   * a promise that never settles; it is created without a time limit, so a time-out of 1 ms finds
   * everything in its final state
   */
  let waits: Promise<unknown> = Promise.resolve();

  before(async function () {
    this.timeout(0);
    closed = await open(4);
    await closed.close();
    left = await LearnerGroup.join({
      shared: shareLearnerGroup({ ranks: 1, parameters: 3 }),
      rank: 0,
    });
    left.close();
  });
  // The hooks close what the tests opened, but the errors of the tests must still list it. After a
  // failed hook, mocha runs only after().
  async function close(this: Mocha.Context): Promise<void> {
    this.timeout(0);
    for (const each of opened.splice(0)) await each[Symbol.asyncDispose]();
  }
  afterEach(close);
  after(async function () {
    await close.call(this);
    // These objects were closed before the tests and are still reachable here. The errors must not
    // list them.
    expect([closed.inspect().slots.length, left.size]).to.deep.equal([4, 1]);
  });

  describe('with a pipeline', () => {
    before(async function () {
      this.timeout(0);
      const made = await open(2);
      opened.push(made);
      made.capture(() => {});
      waits = made.run({ ticks: 1 }).catch(() => {});
      await until('the requester waits', () => made.waitingFor().startsWith('rows'), 600_000);
    });
    it('a test times out', async function () {
      this.timeout(1);
      await waits;
    });
  });

  describe('with a group and a pool', () => {
    before(async function () {
      this.timeout(0);
      const shared = shareLearnerGroup({ ranks: 2, parameters: 3 });
      const group = await LearnerGroup.join({ shared, rank: 0 });
      const end = new AbortController();
      waits = group.average(Float32Array.of(1, 2, 3), { signal: end.signal }).catch(() => {});
      const entry = new URL('../collectors/plain-collector.js', import.meta.url);
      const pool = await CollectorPool.open({
        entry,
        buffer: buffer(),
        workers: 2,
        options: { fault: 'never' },
      });
      opened.push(pool, { [Symbol.asyncDispose]: async () => end.abort() });
    });
    describe('within', () => {
      before(async function () {
        this.timeout(1);
        await waits;
      });
      it('a hook times out', () => {});
    });
  });

  it('an assertion fails', () => expect.fail('as it must'));
});
