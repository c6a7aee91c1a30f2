/** Tests that updates read float32 columns of a batch where they are, without launches that copy them. */
import { expect } from 'chai';
import { tracedDqn, tracedFastSac, tracedSac, tracedTd3 } from '../../bench/traced-learners.ts';
import { DqnLearner, type Learner, SacLearner, Td3Learner } from '../../src/entries/learner.ts';
import { type Device, openDevice, type Tensor } from '../../src/index.ts';
import { LaunchedStream } from '../rig/launched-stream.ts';
import { ON_HOST, TESTED } from '../rig/tested-device.ts';

const [ROWS, OBS, ACTIONS] = [8, 5, 3];
const hidden = [8, 7];
const box = {
  ...{ obsDim: OBS, actionDim: ACTIONS, batchSize: ROWS },
  ...{ actorHidden: hidden, criticHidden: hidden },
};
const fast = {
  ...{ ...box, layerNorm: true, activation: 'silu' as const },
  critic: { kind: 'categorical', atoms: 11, min: -2, max: 2 },
} as const;
const sizes = { obs: OBS, actions: ACTIONS, hidden, rows: ROWS };

/** A learner, and how its updates read the columns of a batch. */
interface Case {
  make(device: Device): Learner;
  /** column that may have any dtype */
  readonly other: string;
  /** columns that the CPU device copies: parts of a concatenation, and weights that an op broadcasts */
  readonly copied: readonly string[];
}
const indexed = { other: 'actions', copied: [] };
const joined = ['nextObs', 'obs', 'actions'];
const cases: Readonly<Record<string, Case>> = {
  'double DQN': {
    make: (device) =>
      new DqnLearner(device, { obsDim: OBS, actions: ACTIONS, hidden, batchSize: ROWS }),
    ...indexed,
  },
  SAC: { make: (device) => new SacLearner(device, box), other: 'terminated', copied: joined },
  TD3: { make: (device) => new Td3Learner(device, box), other: 'terminated', copied: joined },
  FastSAC: { make: (device) => new SacLearner(device, fast), other: 'terminated', copied: joined },
  'described double DQN': { make: (device) => tracedDqn(device, sizes, true), ...indexed },
  'described SAC': {
    make: (device) => tracedSac(device, sizes),
    ...{ other: 'rewards', copied: ['weights', ...joined] },
  },
  'described TD3': {
    make: (device) => tracedTd3(device, sizes),
    ...{ other: 'rewards', copied: ['weights', ...joined] },
  },
  'described FastSAC': {
    make: (device) => tracedFastSac(device, { ...sizes, atoms: 11 }),
    ...{ other: 'rewards', copied: joined },
  },
};

type Batch = Record<string, Tensor>;

describe('columns of a batch', () => {
  let device: Device;
  const open: { close(): void }[] = [];
  before(() => {
    device = openDevice(TESTED);
  });
  afterEach(() => {
    for (const made of open.splice(0).reverse()) made.close();
  });
  after(() => device.close());
  const keep = <T extends { close(): void }>(made: T): T => {
    open.push(made);
    return made;
  };

  /** Returns float32 columns: tensors of their own, or views of one matrix [rows, width]. */
  function batchOf({ other, copied }: Case, packed: boolean): Batch {
    const widths: Record<string, number> = {
      ...{ obs: OBS, nextObs: OBS, actions: other === 'actions' ? 0 : ACTIONS },
      ...{ rewards: 0, discounts: 0, ...(copied.includes('obs') && { weights: 0 }) },
    };
    const total = Object.values(widths).reduce((sum, width) => sum + Math.max(width, 1), 0);
    const matrix = keep(device.allocate({ shape: [ROWS, total] }));
    let offset = 0;
    const columns = Object.entries(widths).map(([name, width]) => {
      const shape = width === 0 ? [ROWS] : [ROWS, width];
      const strides = width === 0 ? [total] : [total, 1];
      const column = packed
        ? matrix.view({ shape, strides, offset })
        : keep(device.allocate({ shape }));
      offset += Math.max(width, 1);
      return [name, column] as const;
    });
    return Object.fromEntries(columns);
  }

  /** Returns the columns that an update copies or converts, each after its kernel. */
  async function moved({ make }: Case, batch: Batch): Promise<string[]> {
    const learner = keep(make(device));
    const out = keep(device.allocate({ shape: [learner.scalars.length] }));
    await learner.ready;
    // The first update runs all phases.
    const stream = new LaunchedStream(device.currentStream);
    learner.update(stream, batch, out);
    expect(stream.launched.map(({ kernel }) => kernel)).to.include('step_end');
    const within = (part: Tensor, { handle, byteOffset, shape: [, width = 1] }: Tensor) =>
      part.handle === handle &&
      part.byteOffset >= byteOffset &&
      part.byteOffset < byteOffset + 4 * width;
    return stream.launched
      .filter(({ kernel }) => kernel === 'convert' || kernel.startsWith('copy'))
      .flatMap(({ kernel, tensors: [, ...read] }) => {
        const names = Object.keys(batch).filter((name) =>
          read.some((part) => within(part, batch[name]!)),
        );
        // A conversion of other memory has no name.
        return names.length === 0 && kernel === 'convert'
          ? [kernel]
          : names.map((name) => `${kernel} ${name}`);
      });
  }

  for (const [name, each] of Object.entries(cases)) {
    const copies = each.copied.map((column) => `copy2d ${column}`);
    const copiesOf = (all: readonly string[]) => all.filter((text) => text.startsWith('copy'));

    for (const packed of [false, true])
      it(`an update of ${name} converts no float32 column that is ${packed ? 'a part of packed rows' : 'dense'}`, async () => {
        const all = await moved(each, batchOf(each, packed));
        expect(all.filter((text) => text.startsWith('convert'))).to.deep.equal([]);
        if (ON_HOST) expect(copiesOf(all)).to.deep.equal(copies);
      });

    for (const dtype of ['uint8', 'int64'] as const)
      it(`an update of ${name} converts the column ${each.other} once if it is ${dtype}`, async () => {
        const { discounts, ...batch } = batchOf(each, false);
        const other = keep(device.allocate({ shape: [ROWS], dtype }));
        const all = await moved(each, {
          ...batch,
          ...(each.other !== 'terminated' && { discounts: discounts! }),
          [each.other]: other,
        });
        expect(all.filter((text) => text.startsWith('convert'))).to.deep.equal([
          `convert ${each.other}`,
        ]);
        if (ON_HOST) expect(copiesOf(all)).to.deep.equal(copies);
      });
  }
});
