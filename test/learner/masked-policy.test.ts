/** Tests policies with masks of legal actions, for each head, against plain loops in float64. */
import { expect } from 'chai';
import {
  CategoricalPolicy,
  DqnPolicy,
  type DqnPolicyOptions,
  linear,
  MlpPolicy,
  Network,
  quantileMean,
} from '../../src/entries/learner.ts';
import { refusal } from '../rig/refusal.ts';
import { expectClose } from './reference.ts';
import { numbers } from './traced/rig.ts';

const [ACTIONS, ATOMS, LOW, HIGH, OBS, ROWS] = [6, 4, -1, 2, 3, 12];
const head = { kind: 'categorical', atoms: ATOMS, min: LOW, max: HIGH } as const;
const heads: Record<string, Partial<DqnPolicyOptions>> = {
  scalar: {},
  dueling: { dueling: true },
  categorical: { head },
  'dueling and categorical': { head, dueling: true },
  'dueling and categorical with a scale': { head, dueling: true, scale: 0.5 },
};
const { NEGATIVE_INFINITY: never } = Number;
const range = (n: number) => Array.from({ length: n }, (_, i) => i);

/** Random masks. Row 2 has no legal action, row 3 all of them, and row 4 one. */
const masksOf = (rows: number): Uint8Array =>
  Uint8Array.from(numbers(rows * ACTIONS, 5), (x, i) => {
    const row = Math.floor(i / ACTIONS);
    return row === 2 ? 0 : row === 3 ? 1 : row === 4 ? Number(i % ACTIONS === 5) : Number(x > 0);
  });
const rowOf = <T extends { slice(a: number, b: number): T }>(values: T, row: number): T =>
  values.slice(row * ACTIONS, (row + 1) * ACTIONS);

/** Returns the index of the greatest value among legal actions, or 0. */
const best = (values: ArrayLike<number>, legal: Uint8Array): number =>
  range(ACTIONS).reduce(
    (at, a) => (legal[a] && (!legal[at] || values[a]! > values[at]!) ? a : at),
    0,
  );

describe('policies with masks of legal actions', () => {
  const obs = numbers(ROWS * OBS, 9);
  const mask = masksOf(ROWS);

  for (const [name, more] of Object.entries(heads))
    for (const poison of [undefined, 1e30, Number.POSITIVE_INFINITY, Number.NaN])
      it(`DqnPolicy, ${name}: values and actions agree with float64 if action 1 is illegal and worth ${poison}`, () => {
        const policy = new DqnPolicy({ obsDim: OBS, actions: ACTIONS, hidden: [], ...more });
        const weights = policy.network.initialize(3);
        const [n, first] = [more.head ? ATOMS : 1, Number(more.dueling ?? false)];
        const outputs = (ACTIONS + first) * n;
        const masks = mask.slice();
        // The bias of an action reaches its value alone.
        if (poison !== undefined) {
          const bias = outputs * OBS + (1 + first) * n;
          weights.fill(poison, bias, bias + n);
          for (let row = 0; row < ROWS; row++) masks[row * ACTIONS + 1] = 0;
        }
        policy.load(weights);
        const wanted = range(ROWS).flatMap((row) => {
          const legal = rowOf(masks, row);
          const x = obs.slice(row * OBS, (row + 1) * OBS).map((v) => v * (more.scale ?? 1));
          const out = range(outputs).map((o) =>
            x.reduce((sum, v, i) => sum + v * weights[o * OBS + i]!, weights[outputs * OBS + o]!),
          );
          const count = Math.max(
            legal.reduce((a, b) => a + b, 0),
            1,
          );
          return range(ACTIONS).map((a) => {
            if (!legal[a]) return never;
            const logits = range(n).map((k) => {
              const own = out[(a + first) * n + k]!;
              if (!more.dueling) return own;
              const sum = range(ACTIONS).reduce(
                (total, b) => (legal[b] ? total + out[(1 + b) * n + k]! : total),
                0,
              );
              return out[k]! + own - sum / count;
            });
            if (!more.head) return logits[0]!;
            const all = logits.reduce((sum, v) => sum + Math.exp(v), 0);
            return logits.reduce(
              (sum, v, k) => sum + (Math.exp(v) / all) * (LOW + (k * (HIGH - LOW)) / (n - 1)),
              0,
            );
          });
        });
        const values = Array.from(policy.values(obs, ROWS, { mask: masks }));
        expect(values.map((v) => v === never)).to.deep.equal(wanted.map((v) => v === never));
        const finite = (of: number[]) => of.map((v) => (v === never ? 0 : v));
        expectClose(finite(values), finite(wanted), 1e-6, 'values');
        expect([...policy.act(obs, ROWS, { mask: masks })]).to.deep.equal(
          range(ROWS).map((row) => best(rowOf(wanted, row), rowOf(masks, row))),
        );
      });

  for (const [name, more] of Object.entries(heads))
    it(`DqnPolicy, ${name}: a mask of ones, and none, give the same bits`, () => {
      const policy = new DqnPolicy({ obsDim: OBS, actions: ACTIONS, hidden: [5], ...more });
      policy.load(policy.network.initialize(4));
      const ones = new Uint8Array(ROWS * ACTIONS).fill(1);
      const values = policy.values(obs, ROWS).slice();
      const actions = policy.act(obs, ROWS).slice();
      for (const given of [ones, ones.map(() => 255)]) {
        expect(policy.values(obs, ROWS, { mask: given })).to.deep.equal(values);
        expect(policy.act(obs, ROWS, { mask: given })).to.deep.equal(actions);
      }
      // A call without a mask follows one with a mask.
      policy.act(obs, ROWS, { mask: new Uint8Array(ROWS * ACTIONS) });
      expect(policy.values(obs, ROWS, {})).to.deep.equal(values);
      expect(policy.act(obs, ROWS, { mask: undefined })).to.deep.equal(actions);
    });

  it('MlpPolicy takes a legal action even if its value is −Infinity', () => {
    const network = new Network([linear(1, 3)]);
    const policy = new MlpPolicy(network, Float32Array.of(0, 0, 0, 5, never, never));
    const act = (...given: number[]) =>
      policy.act(Float32Array.of(0), 1, { mask: Uint8Array.from(given) })[0];
    expect([act(1, 1, 1), act(0, 1, 1), act(0, 0, 1), act(0, 0, 0)]).to.deep.equal([0, 1, 2, 0]);
    // The mean of quantiles is a last layer, as of QR-DQN.
    const means = new MlpPolicy(new Network([linear(1, 4), quantileMean(2, 2)]));
    means.load(Float32Array.of(0, 0, 0, 0, 9, 1, 9, 2));
    expect([...means.values(Float32Array.of(0), 1, { mask: Uint8Array.of(0, 1) })]).to.deep.equal([
      never,
      1.5,
    ]);
  });

  it('a mask and observations may have more rows than the call uses', () => {
    const policy = new MlpPolicy({ sizes: [OBS, ACTIONS] });
    policy.load(policy.network.initialize(6));
    const all = policy.act(obs, ROWS, { mask }).slice();
    expect(policy.act(obs, 3, { mask })).to.deep.equal(all.slice(0, 3));
    expect(policy.act(obs, 0, { mask: new Uint8Array(0) })).to.deep.equal(new Int32Array(0));
  });

  it('CategoricalPolicy samples legal actions by their softmax', () => {
    const network = new Network([linear(1, 4)]);
    const logits = [0.5, 3, -0.25, 1];
    const policy = new CategoricalPolicy(network, { seed: 7 });
    policy.load(Float32Array.of(0, 0, 0, 0, ...logits));
    const rows = 40_000;
    const legal = [1, 0, 1, 1];
    const given = Uint8Array.from({ length: 4 * rows }, (_, i) => legal[i % 4]!);
    const counts = [0, 0, 0, 0];
    for (const action of policy.act(new Float32Array(rows), rows, { mask: given }))
      counts[action]!++;
    const all = logits.reduce((sum, x, a) => sum + legal[a]! * Math.exp(x), 0);
    for (const [a, count] of counts.entries())
      expect(count / rows).to.be.closeTo((legal[a]! * Math.exp(logits[a]!)) / all, 0.01);
    const greedy = new CategoricalPolicy(network, { greedy: true });
    greedy.load(policy.parameters);
    expect(greedy.act(new Float32Array(1), 1, { mask: Uint8Array.from(legal) })[0]).to.equal(3);
  });

  it('CategoricalPolicy takes a legal action even if logits are not finite', () => {
    const policy = new CategoricalPolicy(new Network([linear(1, 4)]));
    const mask = Uint8Array.of(0, 1, 0, 1);
    for (const logit of [Number.NaN, Number.POSITIVE_INFINITY, never]) {
      policy.load(Float32Array.of(0, 0, 0, 0, logit, logit, logit, logit));
      expect(policy.act(Float32Array.of(0), 1, { mask })[0], String(logit)).to.be.oneOf([1, 3]);
    }
  });

  it('CategoricalPolicy takes one random number a row, also in a row without a legal action', () => {
    const made = () => {
      const policy = new CategoricalPolicy(new Network([linear(OBS, ACTIONS)]), { seed: 8 });
      return policy.load(policy.network.initialize(2));
    };
    const [empty, free] = [made(), made()];
    const none = new Uint8Array(ACTIONS);
    expect([...empty.act(obs, 1, { mask: none })]).to.deep.equal([0]);
    free.act(obs, 1);
    const ones = new Uint8Array(ROWS * ACTIONS).fill(1);
    const after = free.act(obs, ROWS).slice();
    expect(empty.act(obs, ROWS, { mask: ones })).to.deep.equal(after);
  });

  it('masks of another type or length, and unknown options, are refused', () => {
    const policy = new MlpPolicy({ sizes: [OBS, ACTIONS] });
    policy.load(policy.network.initialize(6));
    const says = (options: unknown) => {
      const error = refusal(() => policy.act(obs, 2, options as never));
      return `${error.name}: ${error.message}`;
    };
    const type = 'TypeError: mask must be a Uint8Array of one byte for each action, got ';
    expect(says({ mask: new Array(12).fill(1) })).to.equal(`${type}an array of 12`);
    expect(says({ mask: new Float32Array(12) })).to.equal(`${type}a Float32Array of 12`);
    expect(says({ mask: null })).to.equal(`${type}null`);
    const length = 'RangeError: mask: 2 rows of 6 actions need 12 bytes, got ';
    expect(says({ mask: new Uint8Array(6) })).to.equal(`${length}6`);
    expect(says({ mask: new Uint8Array(13) })).to.equal(`${length}13`);
    expect(says({ masks: mask })).to.equal(
      "TypeError: policy: unknown option 'masks'; it takes mask",
    );
    expect(says(mask)).to.match(/^TypeError: policy: unknown option '0'/);
    const values = () => policy.values(obs, 2, { mask: new Uint8Array(6) });
    expect(refusal(values).message).to.equal(length.slice(12) + 6);
  });
});
