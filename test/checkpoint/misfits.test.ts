/**
 * Tests Checkpoint.restore() into parts that differ from the saved ones. It must name each
 * difference and change no part, and the parts can still be used.
 */
import { readdirSync } from 'node:fs';
import { expect } from 'chai';
import {
  Checkpoint,
  type CheckpointOptions,
  CollectorPool,
  ReplayBuffer,
} from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import {
  change,
  changed,
  closeAll,
  contents,
  filesIn,
  inFolder,
  type Kind,
  make,
  type Options,
  restored,
} from './rig.ts';

async function save(folder: string, parts: CheckpointOptions): Promise<void> {
  const checkpoint = await Checkpoint.open(folder, parts);
  await checkpoint.save();
  await checkpoint.close();
}

describe('Checkpoint: parts that do not fit', () => {
  afterEach(closeAll);

  const cases: [kind: Kind, options: Options, ...why: string[]][] = [
    ['rows', { capacity: 41 }, 'buffer.capacity is 41 here, 40 in the checkpoint'],
    [
      'rows',
      { fields: { value: { shape: [4] } } },
      'buffer.fields.value is "float32[4]" here, "float32[3]" in the checkpoint',
      'pipeline.columns.value',
    ],
    [
      'rows',
      { fields: { mass: { shape: [] } } },
      'buffer.fields.mass ("float32[]") is not in the checkpoint',
      'buffer.fields.value ("float32[3]") is only in the',
    ],
    [
      'rows',
      { limiter: { samplesPerInsert: 5, minSize: 6, errorBuffer: 1e5, gateAdd: true } },
      'limiter.samplesPerInsert is 5 here, 4 in',
      'limiter.minSize is 6',
      'limiter.errorBuffer is 100000',
      'limiter.gateAdd is true',
    ],
    ['rows', { length: 6 }, 'mailbox.length is 6 here, 5 in the checkpoint'],
    [
      'rows',
      { pipeline: { sampleCount: 9, baseSeed: 8 } },
      'pipeline.sampleCount is 9 here, 8 in',
      'pipeline.baseSeed is 8 here, 7 in',
    ],
    ['steps', { lanes: 5, capacity: 90 }, 'buffer.lanes is 5 here, 3 in the checkpoint'],
    [
      'steps',
      { sampling: { alpha: 0.5, epsilon: 1e-3, normalize: 'batch' } },
      'buffer.priorities.alpha is 0.5 here, 0.6',
      'buffer.priorities.epsilon',
      'buffer.priorities.normalise is "batch"',
    ],
    ['steps', { view: { nStep: 3, gamma: 0.5 } }, 'buffer.priorities.view.nStep is 3 here, 2 in'],
    ['steps', { view: { nStep: 2, gamma: 0.25 } }, 'buffer.priorities.view.gamma'],
    ['steps', { pipeline: { depth: 4 } }, 'pipeline.depth is 4 here, 3 in the checkpoint'],
  ];
  for (const [kind, options, ...why] of cases) {
    it(`restore() rejects ${kind} with different ${Object.keys(options)} (named differences: ${why.length})`, () =>
      inFolder(async (folder) => {
        await save(folder, (await changed(kind, 1)).parts);
        const files = filesIn(folder);
        const other = await make(kind, options).catch((error: Error) => error);
        if (other instanceof Error) throw other;
        const error = await rejection(Checkpoint.restore(folder, other.parts));
        expect(error).to.include({ code: 'ERR_HOTSLOT_RANGE' });
        for (const words of why) expect(error.message).to.include(words);
        expect(error.message)
          .to.match(/does not fit these parts: /)
          .and.to.not.include('\n');
        expect(filesIn(folder)).to.deep.equal(files);
        if (!options.fields && !options.pipeline) await change(other, 1);
        const { run } = await restored(kind, folder);
        await change(run, 2);
      }));
  }

  it('restore() names twelve differences at once, and the number of further differences', () =>
    inFolder(async (folder) => {
      await save(folder, (await changed('steps', 1)).parts);
      const sampling = { alpha: 0.5, epsilon: 1e-3 };
      const pipeline = { sampleCount: 9, baseSeed: 8, depth: 4 };
      const limiter = { samplesPerInsert: 5, minSize: 6, errorBuffer: 1e5, gateAdd: true };
      const other = await make('steps', {
        lanes: 5,
        capacity: 200,
        sampling,
        pipeline,
        limiter,
        length: 9,
      });
      const weights = { dtype: 'float64', shape: [6], data: new Float64Array(6) } as const;
      const learner = {
        state: () => ({ weights, bias: weights }),
        loadState: () => expect.fail('it was loaded'),
      };
      const { message } = await rejection(Checkpoint.restore(folder, { ...other.parts, learner }));
      expect(message.split('; ')).to.have.length(13);
      expect(message).to.match(/; and \d+ more$/);
      const alone = await rejection(
        Checkpoint.restore(folder, { ...(await make('steps')).parts, learner }),
      );
      expect(alone.message).to.include(
        'learner.kind is "Object" here, "Standin" in the checkpoint',
      );
      expect(alone.message).to.include(
        'learner.state.weights is "float64[6]" here, "float32[2×3]" in the checkpoint',
      );
      expect(alone.message).to.include(
        'learner.state.bias ("float64[6]") is not in the checkpoint',
      );
      expect(alone.message).to.include('learner.state.count ("int32[]") is only in the checkpoint');
    }));

  it('restore() rejects missing, extra and different parts, and accepts a deeper ring', () =>
    inFolder(async (folder) => {
      const run = await changed('uniform', 1);
      const { learner: _, extra: __, ...without } = run.parts;
      await save(folder, without);
      const deeper = { pipeline: { depth: 5 } };
      const other = await make('uniform', deeper);
      const { learner, extra, mailbox, ...few } = other.parts;
      const { message } = await rejection(
        Checkpoint.restore(folder, { ...few, learner: learner! }),
      );
      expect(message).to.include('learner is not in the checkpoint');
      expect(message).to.include('mailbox is in the checkpoint, but was not given');
      const rows = await make('rows');
      const { learner: ___, ...ofRows } = rows.parts;
      const kind = (await rejection(Checkpoint.restore(folder, ofRows))).message;
      expect(kind).to.include(
        'buffer.kind is "ReplayBuffer" here, "TrajectoryBuffer" in the checkpoint',
      );
      const byPriorities = await make('steps');
      const { learner: ____, ...drawn } = byPriorities.parts;
      const draws = (await rejection(Checkpoint.restore(folder, drawn))).message;
      expect(draws).to.include(
        'pipeline.draws is "by priorities" here, "uniformly" in the checkpoint',
      );
      // Without collectors or prioritized steps the ring may be deeper. restore() returns the other
      // parts of the checkpoint, and the caller need not ask for them.
      const back = await Checkpoint.restore(folder, { ...few, mailbox: mailbox!, extra });
      expect(back).to.deep.include({ save: 1, tick: 3, collectors: undefined, extra: undefined });
      expect(contents(few.buffer!)).to.deep.equal(contents(run.parts.buffer!));
    }));

  it('open() rejects a pipeline of another buffer, and a prioritized buffer without its pipeline', () =>
    inFolder(async (folder) => {
      const [one, other] = [await make('steps'), await make('steps')];
      const { pipeline, buffer } = one.parts as Required<CheckpointOptions>;
      const elsewhere = other.parts.buffer as typeof buffer;
      expect(
        (await rejection(Checkpoint.open(folder, { pipeline, buffer: elsewhere }))).message,
      ).to.equal('Checkpoint.open: the pipeline draws from another buffer');
      const alone = await rejection(Checkpoint.open(folder, { buffer }));
      expect([alone.code, alone.message]).to.deep.equal([
        'ERR_HOTSLOT_STATE_RUNNING',
        "Checkpoint.open: a pipeline samples by this buffer's priorities; give pipeline too, so that it is paused",
      ]);
      expect(readdirSync(folder)).to.deep.equal([]);
    }));

  it('restore() rejects a used buffer, limiter or mailbox', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const { parts } = run;
      await save(folder, parts);
      const files = filesIn(folder);
      const used = async (given: CheckpointOptions, why: RegExp) => {
        const error = await rejection(Checkpoint.restore(folder, given));
        expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
        expect(error.message).to.match(why);
        expect(filesIn(folder)).to.deep.equal(files);
      };
      const before = await run.print();
      await used(parts, /^the buffer has had \d+ rows; restore into new parts$/);
      expect(await run.print()).to.equal(before);
      const fresh = await make('steps');
      fresh.limiter.countSamples(1);
      await used(fresh.parts, /^the limiter has counted rows/);
      const { mailbox, parts: other } = await make('steps');
      mailbox.write(new Float32Array(5));
      await used(other, /^the mailbox has had 1 versions/);
      const { pipeline: ran, parts: third } = await make('steps');
      const filled = await make('rows');
      await change(filled, 1);
      await used({ ...third, pipeline: ran, mailbox }, /^the mailbox has had/);
    }));

  it('restore() rejects a pipeline that has run or is closed, and changes no other part', () =>
    inFolder(async (folder) => {
      const buffer = ReplayBuffer.create({
        capacity: 40,
        fields: { value: { shape: [3] } },
      });
      const run = await changed('rows', 1);
      const { pipeline } = run.parts;
      await save(folder, { pipeline: pipeline! });
      const ran = await changed('rows', 1);
      const error = await rejection(Checkpoint.restore(folder, { pipeline: ran.pipeline }));
      expect(error.message).to.equal(
        'the pipeline has run 4 ticks; restore into a pipeline that was just opened',
      );
      expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
      // restore() rejects because of the pipeline and must not have restored any other part.
      const all = `${folder}/all`;
      const whole = await changed('rows', 1);
      await save(all, whole.parts);
      const closed = await make('rows');
      await closed.close();
      expect(await rejection(Checkpoint.restore(all, closed.parts))).to.include({
        code: 'ERR_HOTSLOT_STATE_CLOSED',
      });
      expect([
        closed.parts.buffer!.ptr,
        closed.limiter.inserts,
        closed.mailbox.begun,
      ]).to.deep.equal([0, 0, 0]);
      expect(closed.learner.count[0]).to.equal(0);
      buffer.close();
    }));

  it('restore() leaves the parts restorable when loadState() of a learner or collectors throws', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      const collectors = { at: 3, state: () => 3, loadState: () => {} };
      await save(folder, { ...run.parts, collectors });
      const fresh = await make('steps');
      const no = () => {
        throw new RangeError('not today');
      };
      const learner = Object.assign(Object.create(fresh.learner), { loadState: no });
      for (const odd of [{ learner }, { collectors: { ...collectors, loadState: no } }]) {
        const given = { ...fresh.parts, collectors, ...odd };
        expect((await rejection(Checkpoint.restore(folder, given))).message).to.equal('not today');
        expect([fresh.parts.buffer!.ptr, fresh.limiter.inserts, fresh.mailbox.begun]).to.deep.equal(
          [0, 0, 0],
        );
      }
      await Checkpoint.restore(folder, { ...fresh.parts, collectors });
      expect(await fresh.print()).to.equal(await run.print());
    }));

  it('save() rejects invalid or throwing state and extra, and keeps the previous checkpoint', () =>
    inFolder(async (folder) => {
      const run = await changed('steps', 1);
      let extra: () => unknown = () => ({ fine: new Map([[1, 2]]) });
      let state = () => run.learner.state() as object;
      const learner = Object.assign(Object.create(run.learner), { state: () => state() });
      const checkpoint = await Checkpoint.open(folder, {
        ...run.parts,
        learner,
        extra: () => extra(),
      });
      await checkpoint.save();
      const files = filesIn(folder);
      const refused = async (why: RegExp) => {
        const error = await rejection(checkpoint.save());
        expect(error.message).to.match(why);
        expect(filesIn(folder)).to.deep.equal(files);
        await run.pipeline.run({ ticks: 1 });
      };
      extra = () => ({ update: () => 1 });
      await refused(
        /^extra cannot be saved: .*could not be cloned.*; give a value that structured cloning supports$/,
      );
      extra = async () => ({ later: Symbol('no') });
      await refused(/^extra cannot be saved: /);
      extra = () => {
        throw new Error('lost');
      };
      await refused(/^lost$/);
      extra = () => Promise.reject(new Error('lost later'));
      await refused(/^lost later$/);
      extra = () => 7;
      state = () => ({ weights: { dtype: 'float32', shape: [2], data: new Float32Array(3) } });
      await refused(/shape of \[2\] has 2 elements, data has 3/);
      // The state is rejected while the files are still being written. The rejection must not count
      // as unhandled.
      const unheard: unknown[] = [];
      const hear = (error: unknown) => void unheard.push(error);
      process.on('unhandledRejection', hear);
      state = () => Promise.reject(new Error('the device is gone'));
      await refused(/^the device is gone$/).finally(() => process.off('unhandledRejection', hear));
      expect(unheard).to.deep.equal([]);
      state = () => run.learner.state();
      expect(await checkpoint.save()).to.deep.include({ tick: 9 });
      await checkpoint.close();
      const { extra: kept } = (await Checkpoint.restore(folder, {
        ...(
          await make('steps')
        ).parts,
        learner: Object.assign(Object.create(run.learner), {}),
      }))!;
      expect(kept).to.equal(7);
    }));

  it('restore() rejects an open CollectorPool, and CollectorPool.open() an invalid resume', () =>
    inFolder(async (folder) => {
      const run = await changed('rows', 1);
      const entry = new URL('../collectors/plain-collector.js', import.meta.url);
      const buffer = ReplayBuffer.create({ capacity: 8, fields: { value: { shape: [2] } } });
      const pool = await CollectorPool.open({ entry, buffer, options: { calm: true } });
      try {
        await save(folder, run.parts);
        const fresh = await make('rows');
        const error = await rejection(
          Checkpoint.restore(folder, { ...fresh.parts, collectors: pool }),
        );
        expect(error).to.include({ code: 'ERR_HOTSLOT_STATE_BUSY' });
        expect(error.message).to.match(/open them with \{ resume: restored\.collectors \}/);
        for (const resume of [7, { kind: 'other' }, 'text'])
          expect((await rejection(CollectorPool.open({ entry, buffer, resume }))).message).to.match(
            /^resume must be the collectors/,
          );
        const two = { kind: 'hotslot.CollectorPool.state', workers: [{}, {}] };
        const odd = await rejection(CollectorPool.open({ entry, buffer, resume: two }));
        expect(odd.message).to.match(/^resume is of 2 workers; workers must be equal, got 1/);
      } finally {
        await pool.close();
      }
    }));
});
