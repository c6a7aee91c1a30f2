/** Tests that wrong descriptions, batches and states of traced learners are refused with sentences. */
import { expect } from 'chai';
import { firstNonFinite, Mlp, Network, relu } from '../../../src/entries/learner.ts';
import {
  adam,
  copied,
  type DescribedLearner,
  type Expression,
  ensemble,
  huber,
  learner,
  linearSchedule,
  parameter,
  polyak,
  sgd,
  trace,
  warmUp,
} from '../../../src/entries/trace.ts';
import { openHandles } from '../../rig/handles.ts';
import { refusal } from '../../rig/refusal.ts';
import { OBS, Rig, ROWS } from './rig.ts';

type Any = Record<string, unknown>;

describe('wrong descriptions of traced learners', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  const q = new Mlp({ sizes: [OBS, 6, 3] });
  type Net = (x: Expression) => Expression;
  type Update = (
    networks: Record<string, Net>,
    batch: Record<string, Expression>,
    p: Record<string, Expression>,
  ) => unknown;
  const update: Update = ({ q: net }, { obs }) => ({ minimize: { q: net!(obs!).mean() } });
  const whole = (): Any => ({
    name: 'own',
    rows: ROWS,
    batch: { obs: [OBS] },
    networks: { q },
    optimizers: { q: adam() },
    update,
  });
  const make = (changed: Any): DescribedLearner =>
    rig.keep(learner(rig.device, { ...whole(), ...changed } as never));

  const place = String.raw` \(.*description\.test\.[jt]s:\d+:\d+\)$`;
  const refused: Readonly<Record<string, readonly [Any | (() => unknown), RegExp]>> = {
    'a name that is no text': [{ name: '' }, /^learner: name must be a text such as 'my-dqn'/],
    'rows that are no count': [{ rows: 0 }, /^learner: rows must be a whole number of at least 1/],
    'an unknown field': [{ network: {} }, /^learner: unknown option 'network'/],
    'a batch without fields': [{ batch: {} }, /^learner: batch declares no fields/],
    'a field of an unknown form': [
      { batch: { obs: 'whole' } },
      /^learner: batch field 'obs' is described by a shape such as \[84\], by 'index'/,
    ],
    'a dtype that does not exist': [
      { batch: { obs: { shape: [OBS], dtype: 'float' } } },
      /^learner: batch field 'obs' has an unknown dtype 'float'; known: /,
    ],
    'a network that is none': [
      { networks: { q: {} } },
      /^learner: networks\.q must be a Network, ensemble\(…\), polyak\(…\) or copied\(…\), got an object/,
    ],
    'a network without parameters': [
      { networks: { q: new Network([{ ...relu(), inputs: OBS } as never]) } },
      /^learner: network 'q' has no parameters/,
    ],
    'a follower of nothing': [
      { networks: { q, target: polyak('p', 0.5) } },
      /^learner: networks\.target follows 'p', which is not a network here; networks: q \(it is described at .*description\.test/,
    ],
    'a follower with a phase that does not exist': [
      { networks: { q, target: polyak('q', 0.5, { with: 'actor' }) } },
      /follows with 'actor', which no phase minimizes; minimized: q/,
    ],
    'a follower of a loose parameter': [
      { parameters: { p: parameter() }, networks: { q, slow: polyak('p', 0.5) } },
      /^learner: networks\.slow follows 'p', which is not a network here; networks: q/,
    ],
    'options of an optimizer': [
      { optimizers: { q: adam({ learningRate: -1 }) } },
      /^learner: optimizers\.q: learningRate must be within \[0, 1000000\], got -1/,
    ],
    'an expression as a condition': [
      {
        update: (networks: Record<string, Net>, batch: Record<string, Expression>) =>
          (batch.obs as unknown as number) > 0 ? update(networks as never, batch, {}) : {},
      },
      /^an expression has no value while the trace is made; use methods such as add\(\) and gt\(\)/,
    ],
    'a copy of what nothing steps': [
      { networks: { q, p: q, target: copied('p', { every: 5 }) } },
      /counts the steps of 'p', which has no optimizer; use polyak\('p', 1, \{ every: 5 \}\)/,
    ],
    'an optimizer of nothing': [
      { optimizers: { q: adam(), p: adam() } },
      /^learner: optimizers\.p steps 'p', which is neither a network nor a parameter; declared: q/,
    ],
    'two optimizers of one network': [
      { optimizers: { q: adam(), p: adam({ of: ['q'] }) } },
      /^learner: optimizers q and p both step 'q'/,
    ],
    'an optimizer that is a class': [
      { optimizers: { q: {} } },
      /^learner: optimizers\.q must be adam\(…\), adamW\(…\) or sgd\(…\)/,
    ],
    'a network that is not declared': [
      { update: ({ p }: Record<string, Net>, { obs }: Record<string, Expression>) => p!(obs!) },
      /^network 'p' is not declared in learner\(\); declared: q/,
    ],
    'a batch field that is not declared': [
      { update: (_: unknown, { rewards }: Record<string, Expression>) => rewards },
      /^batch field 'rewards' is not declared in learner\(\); declared: obs/,
    ],
    'a loss that is no number': [
      {
        update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
          minimize: { q: net!(obs!) },
        }),
      },
      /^learner: update: minimize\.q, made at .*, must have shape \[\] or \[1\], got \[8, 3\]; take its mean\(\)/,
    ],
    'a loss that does not depend on its network': [
      {
        update: (_: unknown, { obs }: Record<string, Expression>) => ({
          minimize: { q: obs!.mean() },
        }),
      },
      /^learner: the loss of 'q', made at .*, does not depend on 'q', or only through detach\(\)/,
    ],
    'a loss of a follower': [
      {
        networks: { q, target: polyak('q', 0.5) },
        update: ({ target }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
          minimize: { target: target!(obs!).mean() },
        }),
      },
      /^learner: update minimizes 'target', which follows 'q'; minimize that/,
    ],
    'a loss without an optimizer': [
      { optimizers: {} },
      /^learner: update minimizes 'q', which has no optimizer; add optimizers: \{ q: adam\(\) \}/,
    ],
    'an expression of another learner': [
      () => {
        let stolen: Expression | undefined;
        make({
          update: (networks: Record<string, Net>, batch: Record<string, Expression>) => {
            stolen = batch.obs;
            return update(networks as never, batch, {});
          },
        });
        make({
          update: ({ q: net }: Record<string, Net>) => ({ minimize: { q: net!(stolen!).mean() } }),
        });
      },
      /^q\(x\): an expression of another learner or trace/,
    ],
    'an input that does not fit the network': [
      {
        update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
          minimize: { q: net!(obs!.slice(1, 0, 2)).mean() },
        }),
      },
      /^q\(x\): \[8, 2\] does not fit: the network takes rows of 5 numbers/,
    ],
    'a result of five dimensions': [
      {
        batch: { obs: [2, 2, OBS] },
        networks: { q: ensemble(q, 2) },
        update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
          minimize: { q: net!(obs!).mean() },
        }),
      },
      /^q\(x\): \[8, 2, 2, 5\] makes \[2, 8, 2, 2, 3\], but expressions have at most 4 dimensions/,
    ],
    'a loss in place of a phase': [
      {
        update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) =>
          net!(obs!).mean(),
      },
      /^learner: update is an expression; return { minimize: { name: loss } }/,
    ],
    'an async update': [
      { update: async () => ({}) },
      /^learner: update must return its phases at once/,
    ],
    'priorities of another shape': [
      {
        update: (networks: Record<string, Net>, batch: Record<string, Expression>) => ({
          ...(update(networks as never, batch, {}) as object),
          priorities: batch.obs,
        }),
      },
      /^learner: update: priorities must be \[8\], one number a row, got \[8, 5\]/,
    ],
    'an unknown key of a phase': [
      { update: () => ({ minimise: {} }) },
      /^learner: update: unknown option 'minimise'; it takes minimize, scalars, priorities, every/,
    ],
    'phases with too many periods': [
      {
        update: (_: unknown, { obs }: Record<string, Expression>) =>
          Array.from({ length: 31 }, (_each, i) => ({
            scalars: { [`mean${i}`]: obs!.mul(i + 1).mean() },
            every: i + 2,
          })),
      },
      /^own: phases have 32 different periods, and at most 31 are possible; use fewer values of every/,
    ],
    'a parameter and a network of one name': [
      { parameters: { q: parameter() } },
      /^learner: 'q' is a network and a parameter; give them two names/,
    ],
    'a name of the state': [
      { parameters: { updates: parameter() } },
      /^learner: a parameter cannot have the name 'updates'; a name has letters/,
    ],
    'a name with a dot': [
      { networks: { 'q.0': q } },
      /^learner: a network cannot have the name 'q\.0'/,
    ],
    'an ensemble of nothing': [
      () => ensemble({} as never, 2),
      /^ensemble\(network, members\) takes a Network/,
    ],
    'a tau beyond 1': [() => polyak('q', 2), /^polyak: tau must be from 0 to 1, got 2/],
    'every and with together': [
      () => polyak('q', 1, { every: 2, with: 'q' }),
      /^polyak: give every or with, because a phase has its own every/,
    ],
    'initial numbers that are too few': [
      () => parameter({ shape: [3], initial: [1, 2] }),
      /^parameter: \[3\] has 3 numbers, got 2/,
    ],
    'a schedule without steps': [
      () => linearSchedule({ from: 1, steps: 0 }),
      /^linearSchedule: steps must be a whole number from 1 to 2\^24, got 0/,
    ],
    'a warm-up to nothing': [
      () => warmUp(5, 'x' as never),
      /^warmUp\(steps, then\): then is a learning rate or a schedule/,
    ],
  };
  for (const [what, [given, says]] of Object.entries(refused))
    it(`${what}: the error says what to do, with a line of the program`, () => {
      const before = openHandles();
      const { message } = refusal(() => (typeof given === 'function' ? given() : make(given)));
      expect(message).to.match(says);
      expect(message).to.match(new RegExp(place));
      rig.close();
      expect(openHandles()).to.deep.equal(before);
    });

  it('learner() in a capture is refused', () => {
    rig.stream.beginCapture();
    const { code } = refusal(() => make({}));
    rig.stream.endCapture().close();
    expect(code).to.equal('ERR_HOTSLOT_STATE_CAPTURE');
  });

  it('batches of other fields, shapes and dtypes are refused before any launch', async () => {
    const made = make({});
    await made.ready;
    const out = rig.zeros(1);
    const run = (batch: object) => refusal(() => made.update(rig.stream, batch, out)).message;
    expect(run({})).to.match(/^own: a batch needs a tensor 'obs'; this one has nothing \(/);
    expect(run({ obs: rig.zeros(ROWS, 4) })).to.match(
      /^own: 'obs' must be \[rows, 5\], got \[8, 4\] \(/,
    );
    expect(run({ obs: rig.zeros(12, OBS) })).to.match(
      /^own: an update needs a multiple of 8 rows, got 12 \(/,
    );
    const bytes = rig.keep(rig.device.allocate({ shape: [ROWS, OBS], dtype: 'uint8' }));
    expect(run({ obs: bytes })).to.match(
      /^own: 'obs' must be float32, got uint8; describe it as \{ shape: \[5\], dtype: 'uint8' \} \(/,
    );
    const words = rig.keep(rig.device.allocate({ shape: [ROWS], dtype: 'int32' }));
    expect(run({ obs: rig.zeros(ROWS, OBS), priorities: words })).to.match(
      /^own: 'priorities' must be float32, got int32; allocate it as float32 \(/,
    );
    expect(run({ obs: rig.zeros(ROWS, OBS), priorities: rig.zeros(ROWS) })).to.match(
      /^own: the batch wants priorities, which update does not return/,
    );
    const before = await made.parameters.toArray();
    expect(before).to.deep.equal(q.initialize(0));
  });

  it('states of another description are refused, and leave the learner as it is', async () => {
    const [small, other] = [make({}), make({ networks: { q: new Mlp({ sizes: [OBS, 7, 3] }) } })];
    const state = await small.state();
    const run = (record: object) => refusal(() => other.loadState(record as never)).message;
    expect(run(state)).to.match(/^own: 'q\.0\.weight' is 7×5, the state has 6×5/);
    const { 'q.0.weight': _, ...lacking } = state;
    expect(refusal(() => small.loadState(lacking)).message).to.equal(
      "own: the state lacks 'q.0.weight'",
    );
    expect(small.settings).to.not.deep.equal(other.settings);
    const changed = make({
      update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
        minimize: { q: huber(net!(obs!)).mean() },
      }),
    });
    expect(changed.settings.trace).to.not.equal(small.settings.trace);
    expect(make({}).settings).to.deep.equal(small.settings);
  });

  it('a saved state goes on to the bit, for Adam, SGD and schedules', async () => {
    const describe = () =>
      make({
        networks: { q, p: ensemble(q, 2), target: polyak('p', 0.1) },
        parameters: { scale: parameter({ shape: [3], initial: [1, 2, 3] }) },
        optimizers: {
          q: sgd({
            learningRate: linearSchedule({ from: 0.1, steps: 9 }),
            momentum: 0.9,
            nesterov: true,
            weightDecay: 0.01,
            maxGradNorm: 0.5,
          }),
          p: adam({ of: ['p', 'scale'] }),
        },
        update: (
          { q: one, p, target }: Record<string, Net>,
          { obs }: Record<string, Expression>,
          { scale }: Record<string, Expression>,
        ) => ({
          minimize: {
            q: one!(obs!).square().mean(),
            p: p!(obs!).mul(scale!).sub(target!(obs!).detach()).square().mean(),
          },
        }),
      });
    const [first, second] = [describe(), describe()];
    const batch = rig.batch(ROWS, 'index');
    const out = rig.zeros(1);
    for (let i = 0; i < 3; i++) first.update(rig.stream, batch, out);
    const state = await first.state();
    expect(Object.keys(state)).to.include.members([
      'p.1.2.bias',
      'scale',
      'target.0.0.weight',
      'optimizers.q.direction',
      'optimizers.p.mean',
      'updates',
    ]);
    second.loadState(state);
    for (const each of [first, second])
      for (let i = 0; i < 3; i++) each.update(rig.stream, batch, out);
    const [one, two] = [await first.state(), await second.state()];
    for (const [key, { data }] of Object.entries(one))
      expect(two[key]!.data, key).to.deep.equal(data);
  });

  it('sgd() with momentum steps as torch.optim.SGD', async () => {
    const how = { learningRate: 0.1, momentum: 0.5, weightDecay: 0.2 };
    const both = [false, true].map((nesterov) =>
      make({
        networks: {},
        parameters: { x: parameter({ initial: 2 }) },
        optimizers: { x: sgd({ ...how, nesterov }) },
        update: (_: unknown, __: unknown, { x }: Record<string, Expression>) => ({
          minimize: { x: x!.square() },
        }),
      }),
    );
    for (const [i, made] of both.entries()) {
      let [x, v] = [2, 0];
      for (let k = 0; k < 3; k++) {
        made.update(rig.stream, { obs: rig.zeros(ROWS, OBS) }, rig.zeros(1));
        const g = 2 * x + 0.2 * x;
        v = 0.5 * v + g;
        x -= 0.1 * (i === 1 ? g + 0.5 * v : v);
      }
      expect((await made.weights('x').toArray())[0]).to.be.closeTo(x, 1e-6);
    }
  });

  it('watch() and firstNonFinite() name the op and the line', async () => {
    const made = make({
      update: ({ q: net }: Record<string, Net>, { obs }: Record<string, Expression>) => ({
        minimize: { q: net!(obs!).mean().mul(obs!.mean().log()) },
        scalars: { a: net!(obs!).mean() },
      }),
    });
    await made.ready;
    const out = rig.zeros(1);
    const good = { obs: rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(1)) };
    const bad = { obs: rig.tensor([ROWS, OBS], new Float32Array(ROWS * OBS).fill(-1)) };
    const watch = made.watch();
    made.update(rig.stream, good, out);
    expect(await watch.first()).to.equal(null);
    made.update(rig.stream, bad, out);
    made.update(rig.stream, good, out);
    const found = await watch.first();
    expect(found?.text).to.match(
      /^update 1 \(tick 1\): the result of '[^']*\blog\b[^']*' \(.*description\.test\.[jt]s:\d+:\d+\) has NaN or infinity/,
    );
    const first = await firstNonFinite(rig.device, (stream) => make({}).update(stream, bad, out));
    expect(first).to.equal(null);
  });

  it('a trace that ignores importance weights or masks warns once, and so does an idle network', async () => {
    const warnings: string[] = [];
    const listen = (warning: Error) => warnings.push(warning.message);
    process.on('warning', listen);
    try {
      // A frozen network has no optimizer, and is not worth a warning.
      const frozen: Update = ({ q: net, f }, { obs }) => ({
        minimize: { q: net!(obs!).sub(f!(obs!)).mean() },
      });
      const made = make({
        networks: { q, f: q, idle: q, unread: q },
        optimizers: { q: adam(), idle: adam() },
        update: frozen,
      });
      const masks = { nextActionMask: rig.zeros(ROWS, 3) };
      const batch = { obs: rig.zeros(ROWS, OBS), weights: rig.zeros(ROWS), ...masks };
      for (let i = 0; i < 2; i++) made.update(rig.stream, batch, rig.zeros(1));
      await new Promise(setImmediate);
    } finally {
      process.off('warning', listen);
    }
    expect(warnings).to.have.length(4);
    expect(warnings.slice(0, 2)).to.deep.equal([
      'own: no phase minimizes idle; add a loss to minimize, or remove the optimizer',
      'own: update does not use idle, unread',
    ]);
    expect(warnings[2]).to.match(
      /^own: the batch has importance weights, which update does not read/,
    );
    expect(warnings[3]).to.match(
      /^own: the batch has masks of legal actions, which update does not/,
    );
  });

  it('a trace() inside of update is refused', () => {
    const { message } = refusal(() =>
      make({ update: () => trace(rig.device, { x: [1] }, ({ x }) => x) }),
    );
    expect(message).to.match(/traces cannot be nested/);
  });
});
