/**
 * Forged input of the pack actor's thread: values that another thread passes to it, and forged
 * records.
 */

import { attachPacker, type Packer } from '../../src/engine/pipeline/packer.ts';
import { BatchSource, type SharedView } from '../../src/engine/pipeline/source.ts';
import { HostBuffers } from '../../src/engine/ring/host-buffers.ts';
import { Field, RECORD_FIELDS } from '../../src/engine/ring/slot.ts';
import type { TrajectoryBuffer } from '../../src/index.ts';
import { prioritized } from '../../src/store/prioritized.ts';
import { rowsAddon } from '../../src/store/rows/rows-addon.ts';
import { type Case, clone, fillSteps, laneWords, rowsOf, steps } from './forged-rig.ts';

type Numbers = { -readonly [K in keyof SharedView]: SharedView[K] };
type Halves = Parameters<typeof HostBuffers.allocate>[1];

interface Setting {
  readonly byPriority?: boolean;
  readonly record?: Readonly<Record<number, number>>;
  readonly hostBuffers?: Partial<Halves>;
}

interface Packed {
  readonly packer: Packer;
  readonly record: Float64Array;
  readonly hostBuffers: HostBuffers;
  readonly source: SharedView;
}

function recordOf(over: Readonly<Record<number, number>>): Float64Array {
  const record = new Float64Array(RECORD_FIELDS);
  record[Field.rows] = 8;
  record[Field.minPtr] = 1;
  record[Field.beta] = 0.4;
  return Object.assign(record, over);
}

/** Packs a batch of a view, after `change` has changed the source on its way to the pack actor. */
function packs(
  change: (source: Numbers, buffer: TrajectoryBuffer) => void,
  setting: Setting = {},
): Packed {
  const buffer = steps(64);
  fillSteps(buffer, 40);
  const sampler = setting.byPriority ? prioritized() : undefined;
  const whole = new BatchSource({ buffer, view: buffer.transitions(), sampler, sampleCount: 8 });
  const sizes = {
    batchBytes: whole.plan.bytes,
    priorityBytes: whole.priorityBytes,
    fresh: null,
    ...setting.hostBuffers,
  };
  const hostBuffers = HostBuffers.allocate(2, sizes);
  const source = clone(whole.plan.share) as Numbers;
  change(source, buffer);
  const packer = attachPacker(source as SharedView, hostBuffers, 2);
  const record = recordOf(setting.record ?? {});
  packer.pack(0, record);
  return { packer, record, hostBuffers, source: source as SharedView };
}

const mirror = () => new Float64Array(new SharedArrayBuffer(8 * (8 + 64)));
const kept = (freshAt: number, most: number) =>
  ({ mirror: mirror(), freshAt, most }) as Numbers['kept'];

/** Creates a packer of rows. The caller changes its counts. */
function packsRows(rows: number, batchBytes: number) {
  const buffer = rowsOf(64, 8);
  const source = { kind: 'rows', buffer: buffer.share() } as const;
  const packer = attachPacker(
    source,
    HostBuffers.allocate(1, { batchBytes, priorityBytes: 0, fresh: null }),
    1,
  );
  return { packer, record: recordOf({ [Field.rows]: rows }), memory: source.buffer };
}

export const packers: Record<string, Case> = {
  'a column behind every place': { refused: () => packs((s) => s.columns.set([2 ** 31, 4], 1)) },
  'a column before the slot': {
    refused: () =>
      packs((s) => s.columns.set([-(2 ** 22 - 64)], 7), {
        record: { [Field.rows]: 2 ** 20 },
        hostBuffers: { batchBytes: 2 ** 26 },
      }),
  },
  'a column of no bytes': { refused: () => packs((s) => s.columns.set([0], 2)) },
  'a column of no kind': { refused: () => packs((s) => s.columns.set([99], 0)) },
  'transitions of no steps': { refused: () => packs((s) => s.rule.set([0], 1)) },
  'transitions of 2³² steps': { refused: () => packs((s) => s.rule.set([2 ** 32 - 1], 1)) },
  'a rule of NaN': { refused: () => packs((s) => s.rule.fill(Number.NaN)) },
  'ids far behind the slot': {
    refused: () =>
      packs(
        (s) => {
          s.idsAt = 2 ** 45;
        },
        { byPriority: true, record: { [Field.sequence]: 2 } },
      ),
  },
  'what a batch brings before the slot': {
    refused: () =>
      packs((s) => {
        s.kept = kept(-20 * 2 ** 21, 2 ** 21);
      }),
  },
  'room for 2⁶² places': {
    refused: () =>
      packs((s) => {
        s.kept = kept(256, 2 ** 62);
      }),
  },
  'a batch of 2⁵⁹ rows of a view': {
    refused: () => packs(() => {}, { record: { [Field.rows]: 2 ** 59 } }),
  },
  'a batch of 2⁵⁹ rows': {
    refused: () => {
      const { packer, record } = packsRows(2 ** 59, 32 * 8);
      packer.pack(0, record);
    },
  },
  'a batch that grows while it is packed': {
    refused: () => {
      const { packer, record, memory } = packsRows(4, 32_000_000);
      const reserved = new BigUint64Array(
        memory.memory,
        memory.offset + rowsAddon().layouts.rows.reserved,
        1,
      );
      // A writer seems to overwrite every row, so the packer has to read the rows again in the next
      // call.
      reserved[0] = 128n;
      packer.pack(0, record);
      reserved[0] = 64n;
      record[Field.rows] = 1_000_000;
      packer.pack(0, record);
    },
  },
  'a lane that falls back below what was drawn of it': {
    harmless: () => {
      let lanes: BigUint64Array | null = null;
      const { packer, record, hostBuffers, source } = packs(
        (_, buffer) => {
          lanes = laneWords(buffer);
        },
        { byPriority: true },
      );
      const words = lanes as BigUint64Array | null;
      words?.fill(2n ** 40n, 0, 2);
      record[Field.sequence] = 1;
      packer.pack(1, record);
      words?.fill(0n, 0, 2);
      hostBuffers.ids(0, source.idsAt, 8).fill(2 ** 39);
      hostBuffers.priorities(0).fill(1);
      record[Field.sequence] = 2;
      packer.pack(0, record);
    },
  },
  'hostBuffers of negative bytes': {
    refused: () =>
      new HostBuffers({
        memory: new Uint8Array(new SharedArrayBuffer(8192), 4096),
        batchBytes: -512,
        priorityBytes: 0,
        fresh: null,
      }),
  },
};
