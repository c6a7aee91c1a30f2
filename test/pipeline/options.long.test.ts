/**
 * Tests which options ReplayPipeline.open() and capture() accept and reject, and that an idle
 * pipeline keeps no process alive.
 */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { inspect } from 'node:util';
import { expect } from 'chai';
import { placementOf } from '../../src/engine/pipeline/options.ts';
import {
  type PipelineOptions,
  RateLimiter,
  ReplayBuffer,
  ReplayPipeline,
  type Tensor,
  WeightMailbox,
} from '../../src/index.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll, itLonger } from '../rig/setting.ts';
import { TESTED } from '../rig/tested-device.ts';
import { closeAll, filled, pipeline, SAMPLE } from './fixture.ts';

/** Returns the error with which open() rejects these options. */
const refused = (options: object) =>
  rejection(async () => {
    const complete = { buffer: filled(), device: TESTED, sampleCount: 16, ...options };
    await (await ReplayPipeline.open(complete as PipelineOptions)).close();
  });

describe('ReplayPipeline.open() and capture()', () => {
  afterEach(closeAll);

  const wrong: [object, RegExp, (string | RegExp)?][] = [
    [{ buffer: {} }, /buffer must be a ReplayBuffer/],
    [{ sampleCount: 0 }, /sampleCount .* at least 1 and .*, got 0/],
    [{ sampleCount: Number.NaN }, /got NaN/],
    [{ sampleCount: '16' }, /must be a number, got string/],
    [{ depth: 1 }, /depth .* at least 2 .* got 1/],
    [{ depth: 65 }, /at most 64, got 65/],
    [{ restart: -1 }, /restart/],
    [{ baseSeed: -1 }, /baseSeed/],
    [{ journal: 100 }, /power of two, got 100/],
    [{ mailbox: {} }, /mailbox must be a WeightMailbox/],
    [{ device: 'cuda:99' }, /cuda:99/, /ERR_HOTSLOT_(UNAVAILABLE|UNKNOWN_DEVICE)/],
    [{ device: 'tpu:0' }, /unknown device 'tpu:0'/, 'ERR_HOTSLOT_UNKNOWN_DEVICE'],
    [{ device: 'host:99' }, /unknown device 'host:99'/, 'ERR_HOTSLOT_UNKNOWN_DEVICE'],
    [{ device: 0 }, /device must be a string/],
    [{ transfer: 'teleport' }, /auto, immediate, deferred, direct, got 'teleport'/],
    [{ placement: 'everywhere' }, /'auto', 'inline' or an array/],
    [{ placement: [['pack']] }, /role 'submit' once, it names it 0 times/],
    [
      { placement: [['pack', 'submit', 'poll', 'replay'], ['pack']] },
      /role 'pack' once, it names it 2 times/,
    ],
    [{ placement: [['pack', 'dance']] }, /unknown role 'dance'/],
    [{ colour: 'red' }, /unknown option 'colour'; .* takes buffer, view, sampler, beta, device/],
    [{ sampleCount: 2 ** 30 }, /need \d+ bytes, and \d+ are free/, 'ERR_HOTSLOT_MEMORY'],
  ];
  for (const [options, reason, code] of wrong) {
    it(`open() rejects ${JSON.stringify(options)} with the reason`, async () => {
      const error = await refused(options);
      expect(error.message).to.match(reason);
      expect(error.code).to.match(
        typeof code === 'string' ? new RegExp(`^${code}$`) : (code ?? /./),
      );
      expect(error.code).to.match(/^ERR_HOTSLOT_/);
    });
  }

  it('open() rejects a limiter whose errorBuffer is smaller than one batch plus one add', async () => {
    const limiter = RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 8 });
    const buffer = ReplayBuffer.offPolicy({ capacity: 100, obsDim: 4, actionDim: 1, limiter });
    expect(await refused({ buffer })).to.be.instanceOf(RangeError);
  });

  itAll(
    'open() rejects with the reason of an aborted `signal`, and frees its place in the buffer',
    async () => {
      const buffer = filled();
      const reason = new Error('enough');
      const open = (signal: AbortSignal) =>
        refused({ buffer, signal, placement: [['pack'], ['submit', 'poll', 'replay']] });
      expect(await open(AbortSignal.abort(reason))).to.equal(reason);
      // A buffer has places for eight pipelines. Nine aborted calls must not use them up.
      for (let i = 0; i < 9; i++) {
        const controller = new AbortController();
        const opening = open(controller.signal);
        controller.abort(reason);
        expect(await opening).to.equal(reason);
      }
      await (await pipeline({ buffer, signal: new AbortController().signal })).close();
      expect((await refused({ signal: 3 })).message).to.include('AbortSignal');
    },
  );

  it('capture() throws for weights whose length differs from the mailbox', async () => {
    const made = await pipeline({ mailbox: WeightMailbox.create({ length: 4 }) });
    const { openDevice } = await import('../../src/index.ts');
    using weights = openDevice(TESTED).allocate({ shape: [5] });
    expect(() => made.capture(() => {}, { weights })).to.throw(
      RangeError,
      '5 elements, the mailbox holds 4',
    );
  });

  itLonger('a batch throws for an unknown field, with the list of its fields', async () => {
    const made = await pipeline();
    const batch = await made.sampleLargeBatch(0, SAMPLE);
    const fields = Object.keys(batch);
    expect(() => batch.nope).to.throw(
      TypeError,
      `a batch has no field 'nope'; it has ${fields.join(', ')}`,
    );
    expect(() => batch.imge)
      .to.throw()
      .with.property('code', 'ERR_HOTSLOT_ARGUMENT');
    // Properties that JavaScript reads from any object: `then` by await, keys by a copy, names by a
    // log.
    expect(await Promise.resolve(batch)).to.equal(batch);
    expect(Object.keys({ ...batch })).to.deep.equal(fields);
    expect([String(batch), 'nope' in batch]).to.deep.equal(['[object Object]', false]);
    expect(inspect(batch)).to.include(fields[0]);
    made.afterTick();
  });

  itLonger(
    'a batch has all fields again after an earlier step has deleted or swapped fields',
    async () => {
      const made = await pipeline({ depth: 2 });
      const spoil = (batch: Record<string, unknown>) => {
        const { obs, nextObs } = batch;
        expect([obs, nextObs]).to.not.include(undefined);
        [batch.obs, batch.nextObs] = [nextObs, obs];
        delete batch.rewards;
        expect(() => batch.rewards).to.throw(TypeError, "a batch has no field 'rewards'");
        return [obs, nextObs] as Tensor[];
      };
      const seen: Tensor[][] = [];
      made.capture((batch) => void seen.push(spoil(batch)));
      made.capture((batch) => void seen.push(spoil(batch)));
      expect(seen.slice(0, 2)).to.deep.equal(seen.slice(2));
      for (let tick = 0; tick < 4; tick++) {
        const batch = (await made.sampleLargeBatch(tick, SAMPLE)) as Record<string, unknown>;
        const [obs, nextObs] = spoil(batch);
        expect([obs!.shape, obs === nextObs]).to.deep.equal([[SAMPLE, 4], false]);
        made.afterTick();
      }
    },
  );

  itLonger('capture() throws for work on a stream that has not joined the capture', async () => {
    const made = await pipeline();
    const { openDevice } = await import('../../src/index.ts');
    using device = openDevice(TESTED);
    using total = device.allocate({ shape: [1] });
    using other = device.allocate({ shape: [1] });
    using apart = device.allocate({ shape: [1] });
    using side = device.createStream();
    using forked = device.createEvent();
    using joined = device.createEvent();
    const beside: [string, () => unknown][] = [
      [
        "'axpby'",
        () => side.launch('axpby', { tensors: [total, total], wholes: [1], reals: [1, 1] }),
      ],
      ['a fill', () => side.fill(total, 1)],
      ['a copy', () => side.copy(total, other)],
      ['a write', () => apart.write(new Float32Array(1), device.defaultStream)],
    ];
    for (const [what, work] of beside) {
      const error = refusal(() => made.capture(() => void work()));
      expect(
        [error.code, error.message.includes(`${what} on a stream outside of this capture`)],
        error.message,
      ).to.deep.equal(['ERR_HOTSLOT_STATE_CAPTURE', true]);
      // Outside of a capture the same work is accepted.
      work();
    }
    made.capture(
      (_batch, { stream, out }) => {
        stream.record(forked);
        side.wait(forked);
        side.fill(out.view({ shape: [1] }), 7);
        side.record(joined);
        stream.wait(joined);
      },
      { scalars: ['seven'] },
    );
    expect((await made.run({ ticks: 3 })).scalars.seven).to.equal(7);
  });

  it('capture() throws if `scalars` is not an array of different names', async () => {
    const made = await pipeline();
    for (const [scalars, words] of [
      ['loss', "an array of names, such as ['loss'], got 'loss'"],
      [5, 'got 5'],
      [{}, 'got an object'],
      [null, 'got null'],
      [[''], "got ''"],
      [[3], 'got 3'],
      [['loss', 'q', 'loss'], "names 'loss' twice"],
    ] as const) {
      const error = refusal(() => made.capture(() => {}, { scalars } as never));
      expect(
        [error.code?.slice(0, 12), error.message.includes(words)],
        error.message,
      ).to.deep.equal(['ERR_HOTSLOT_', true]);
    }
  });

  it("placementOf('auto') uses one thread if HOTSLOT_CORES is 1, and gives a reason", () => {
    expect(placementOf('auto').reason).to.match(/core/);
    const options = new URL('../../src/engine/pipeline/options.js', import.meta.url);
    const script = `import { placementOf } from '${options}'; console.log(placementOf('auto').name)`;
    const env = { ...process.env, HOTSLOT_CORES: '1' };
    const alone = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
      env,
      encoding: 'utf8',
    });
    expect(alone).to.equal('[pack submit poll replay]\n');
    expect(placementOf('inline')).to.deep.include({ threads: [], name: 'inline' });
  });

  it('open() rejects a ninth pipeline on one buffer until the others are closed', async () => {
    const buffer = filled();
    for (let i = 0; i < 8; i++) await pipeline({ buffer, placement: 'inline' });
    expect((await refused({ buffer })).message).to.match(/waiting places .* taken/);
    await closeAll();
    await pipeline({ buffer, placement: 'inline' });
  });

  itAll('an idle pipeline lets the process exit, and an unhandled `error` throws', () => {
    const run = (script: string) =>
      execFileSync(process.execPath, [fileURLToPath(new URL(script, import.meta.url))], {
        encoding: 'utf8',
        timeout: 100_000,
      });
    expect(run('./idle-process.js')).to.equal('left idle\n');
    expect(run('./unheard-error.js')).to.match(/^uncaught PipelineError: .*lost/);
  });
});
