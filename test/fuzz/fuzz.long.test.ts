/**
 * Tests the public API and all input from outside with values that are mostly wrong. A call must
 * return an answer, or throw one of Hotslot's errors and change nothing. `npm run fuzz` does the
 * same for longer and with other seeds.
 */
import { expect } from 'chai';
import { Random } from '../../src/index.ts';
import { itAll, itLonger, setting } from '../rig/setting.ts';
import { right } from './door.ts';
import { kinds } from './kinds.ts';
import { fuzz, inWords, type Plan } from './runner.ts';
import { targetsOf } from './targets.ts';
import { callText, smallerCalls } from './values.ts';
import { World } from './world.ts';

/**
 * Fails with the code of the failed calls. Also fails unless more than the share `answered` of the
 * calls return an answer.
 */
async function fine(plan: Plan, answered: number): Promise<void> {
  const report = await fuzz(plan);
  expect(inWords(plan, report)).to.equal('');
  expect(report.counts.calls).to.equal(plan.calls);
  // If the first check refused almost every call, fuzzing would test little.
  expect(report.counts.answers / plan.calls).to.be.above(answered);
}

describe('fuzzing', function () {
  this.timeout(3_600_000);
  const plan = (kind: Plan['kind'], calls: number): Plan => ({
    kind,
    device: 'host:0',
    seed: 1,
    calls,
  });

  itLonger('finds no failure in calls of the public API with random arguments', () =>
    fine(plan('door', setting({ short: 40, all: 3_000, long: 200_000 })), 0.3),
  );
  itLonger('finds no failure in reads of damaged files', () =>
    fine(plan('files', setting({ short: 30, all: 500, long: 30_000 })), 0.1),
  );
  itLonger('finds no failure in decoders of damaged remote messages, replies and texts', () =>
    fine(plan('messages', setting({ short: 40, all: 4_000, long: 200_000 })), 0.3),
  );
  itLonger('finds no failure in damaged requests to a monitor', () =>
    fine(plan('http', setting({ short: 8, all: 500, long: 30_000 })), 0.9),
  );
  itAll('finds no failure in random command lines', () =>
    fine(plan('commands', setting({ short: 0, all: 4, long: 400 })), 0.9),
  );
  itAll('finds no failure in programs with random environment variables', () =>
    fine(plan('environment', setting({ short: 0, all: 3, long: 100 })), 0.9),
  );

  it('`right` has arguments only for existing functions and methods', async () => {
    const world = await World.open('host:0');
    const targets = targetsOf(world.things);
    await world.close();
    // Classes of other families, and classes of which a world has no object.
    const elsewhere = /^(CudaLike|Xpu)ReplayTransferBackend\.|^UnifiedMempool\./;
    const keys = new Set(targets.map(({ key }) => key));
    expect(
      Object.keys(right).filter((key) => !keys.has(key) && !elsewhere.test(key)),
    ).to.deep.equal([]);
  });

  it('draws the same calls for the same seed and other calls for another seed', async () => {
    const { draw } = await kinds.door('host:0');
    const texts = (seed: number) =>
      Array.from({ length: 200 }, (_, n) => callText(draw(new Random(seed, n))));
    expect(texts(5)).to.deep.equal(texts(5));
    expect(texts(5)).to.not.deep.equal(texts(6));
    for (const [n, text] of texts(5).entries()) expect(text, String(n)).to.match(/^\S/);
  });

  it('smallerCalls() removes every call and value that a failure does not need', () => {
    // A call fails in this test if it has a negative depth anywhere.
    const fails = (text: string) => text.includes('depth: -1');
    const values = {
      object: [
        ['shape', { list: [{ number: 2 }, { number: 3 }] }],
        ['depth', { number: -1 }],
        ['x', { code: 'w.tensor' }],
      ],
    } as const;
    let calls = [
      { form: 'w.a($*)', values: [] },
      { form: 'w.b($*)', values: [{ number: 7 }, values] },
    ] as Parameters<typeof smallerCalls>[0];
    for (let smaller = true; smaller; ) {
      smaller = false;
      for (const tried of smallerCalls(calls)) {
        if (!fails(callText(tried.at(-1) as (typeof calls)[0]))) continue;
        [calls, smaller] = [tried, true];
        break;
      }
    }
    expect(calls.map(callText)).to.deep.equal(['w.b({ depth: -1 })']);
  });
});
