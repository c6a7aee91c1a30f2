/**
 * Tests the trace file of a run. It has a track for each actor, a span for each stage of every
 * tick, and the times that the device measured.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { PipelineOptions, TransferManifest } from '../../src/index.ts';
import { closeAll, counter, pipeline, SAMPLE } from '../pipeline/fixture.ts';
import { rejection } from '../rig/refusal.ts';
import { ON_HOST } from '../rig/tested-device.ts';

interface Span {
  ph: string;
  tid: number;
  ts: number;
  dur?: number;
  name: string;
  args: Record<string, unknown>;
}

describe('trace file of a pipeline', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-trace-'));
  after(() => rmSync(folder, { recursive: true }));
  afterEach(closeAll);

  let manifest: TransferManifest;
  async function traced(
    deviceEvents: boolean,
    more: Partial<PipelineOptions> = {},
  ): Promise<Span[]> {
    const file = join(folder, `${deviceEvents}.json`);
    const made = await pipeline({ trace: { file, deviceEvents }, baseSeed: 7, ...more });
    manifest = made.transferManifest;
    const update = counter(made);
    await made.run({ ticks: 30 });
    await made.close();
    update.close();
    return (JSON.parse(readFileSync(file, 'utf8')) as { traceEvents: Span[] }).traceEvents;
  }

  it('has a named lane per actor and, for every tick, a span per stage in order', async () => {
    const spans = await traced(true);
    const lanes = spans.filter(({ name }) => name === 'thread_name').map(({ args }) => args.name);
    expect(lanes).to.include.members(['requester', 'pack', 'submit', 'poll', 'replay']);
    for (let tick = 0; tick < 30; tick++) {
      const at = (name: string) =>
        spans.find((span) => span.name === name && span.args.tick === tick) as Span;
      const order = [
        'request',
        'pack',
        'replay_pipeline_batch_h2d',
        'ready',
        'launch',
        'spent seen',
      ].map(at);
      const times = order.map(({ ts }) => Number(ts));
      expect(times).to.deep.equal([...times].sort((a, b) => a - b));
      expect(order.filter(({ ph }) => ph === 'X').every(({ dur }) => Number(dur) > 0)).to.equal(
        true,
      );
    }
  });

  it('describes the transfer in the arguments of the H2D span', async () => {
    const span = (await traced(true)).find(
      ({ name, args }) => name === 'replay_pipeline_batch_h2d' && args.tick === 5,
    ) as Span;
    expect(span.args).to.deep.equal({
      tick: 5,
      slot: 1,
      snapshot_ptr: 100,
      snapshot_size: 100,
      seed: 12,
      sample_count: SAMPLE,
      bytes: SAMPLE * 48,
      pinned: manifest.hostPinned,
      shared: manifest.directPinnedShared,
      layout: 'obs next_obs actions rewards dones truncated',
      executor: 'pack actor',
      submitter: manifest.h2dSubmitter,
    });
  });

  it('has a device span per copy and update only if `deviceEvents` is true', async () => {
    const spans = await traced(true);
    for (let tick = 0; tick < 30; tick++) {
      const copy = spans.filter(
        ({ name, args }) => name === 'gpu/replay_pipeline_batch_h2d' && args.tick === tick,
      );
      expect(copy.map(({ args }) => args)).to.deep.equal([
        { tick, slot: tick % 4, bytes: SAMPLE * 48, pinned: manifest.hostPinned },
      ]);
      expect(Number(copy[0]?.dur)).to.be.within(0, 1e6);
      expect(
        spans.filter(({ name, args }) => name === 'gpu/update' && args.tick === tick),
      ).to.have.length(1);
    }
    const names = new Set((await traced(false)).map(({ name }) => name));
    expect([...names].filter((name) => name.startsWith('gpu/'))).to.deep.equal([]);
  });

  it('has device spans only for updates when batches are packed on the device', async function () {
    if (!ON_HOST) this.skip();
    const names = (await traced(true, { transfer: 'direct' })).map(({ name }) => name);
    expect(names.filter((name) => name.startsWith('gpu/'))).to.deep.equal(
      Array(30).fill('gpu/update'),
    );
  });

  it('makes ReplayPipeline.open() reject with ENOENT if its folder is missing', async () => {
    const file = join(folder, 'no', 'such', 'folder.json');
    const { code, message } = await rejection(pipeline({ trace: { file } }));
    expect(code).to.equal('ENOENT');
    expect(message).to.include(file);
  });
});
