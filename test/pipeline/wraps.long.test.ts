/**
 * Tests ticks whose numbers exceed the widths in which they are stored. No tick may be lost,
 * repeated or out of order.
 */
import { expect } from 'chai';
import { internalsOf } from '../../src/engine/pipeline/replay-pipeline.ts';
import { prioritized, type ReplayPipeline, type Tensor } from '../../src/index.ts';
import { itAll } from '../rig/setting.ts';
import { closeAll, counter, pipeline, SPREAD } from './fixture.ts';
import { replica, stepsBuffer, VIEW } from './steps.ts';

/** Continues as if `tick` ticks had been applied. */
async function skipTo(made: ReplayPipeline, tick: number): Promise<void> {
  const position = {
    tick: tick - 1,
    sequence: tick,
    beta: 0.4,
    applied: tick,
    updates: [],
    prepared: null,
  };
  await internalsOf(made).positions.resume(position);
}

const placements = { inline: 'inline', 'a thread per role': SPREAD } as const;
/**
 * Bits of the tick number in a slot's control word, of int32, of uint32, and of the largest exact
 * integers.
 */
const widths = [29, 31, 32, 53];
/**
 * Opening threads takes half a second. The short run therefore has threads with only one width and
 * depth.
 */
const declare = (placement: unknown, bits: number, depth = 3) =>
  placement === SPREAD && (bits !== 29 || depth !== 3) ? itAll : it;

const firstBefore = (bits: number) => (bits === 53 ? 2 ** 53 - 40 : 2 ** bits - 9);

describe('ReplayPipeline with large tick numbers', () => {
  afterEach(closeAll);

  for (const [name, placement] of Object.entries(placements))
    for (const bits of widths)
      for (const depth of [2, 3])
        declare(
          placement,
          bits,
          depth,
        )(`runs every tick once across 2^${bits}, ${name}, depth ${depth}`, async () => {
          const ticks: number[] = [];
          const made = await pipeline({ placement, depth });
          const first = firstBefore(bits);
          await skipTo(made, first);
          const { count, close } = counter(made);
          made.on('tick', ({ tickId }) => ticks.push(tickId));
          for (const some of [7, 8]) expect((await made.run({ ticks: some })).ticks).to.equal(some);
          expect(await count.toArray()).to.deep.equal(Float32Array.of(15));
          expect(ticks).to.deep.equal(Array.from({ length: 15 }, (_, i) => first + i));
          await made.close();
          close();
        });

  for (const [name, placement] of Object.entries(placements))
    for (const bits of widths)
      declare(placement, bits)(
        `applies priorities at the same lag across 2^${bits}, ${name}`,
        async () => {
          const first = firstBefore(bits);
          const [ticks, depth, rows] = [16, 3, 8];
          const want = replica({ ticks, depth, rows, seed: first });
          const [sampler, { buffer }] = [prioritized(), stepsBuffer()];
          const source = { buffer, view: buffer.transitions(VIEW), sampler, sampleCount: rows };
          const made = await pipeline({ ...source, placement, depth } as never);
          await skipTo(made, first);
          made.capture((batch, { stream, priorities }) =>
            stream.copy(priorities as Tensor, (batch as unknown as { rewards: Tensor }).rewards),
          );
          for (const some of [7, 9]) await made.run({ ticks: some });
          await made.close();
          expect(sampler.inspect()).to.deep.equal(want.leaves);
        },
      );
});
