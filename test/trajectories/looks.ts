/**
 * Views of a history. Each compares all its results with the rules of views, as often as the test
 * calls it.
 */
import { expect } from 'chai';
import {
  type PrioritizedSampler,
  prioritized,
  prioritizedIndices,
  type TrajectoryBuffer,
  uniformIndices,
  type View,
} from '../../src/index.ts';
import { refusal } from '../rig/refusal.ts';
import {
  drawableIds,
  drawnGoals,
  type Rule,
  ruleName,
  sameSample,
  sampleOf,
  viewOf,
} from './expected.ts';
import type { fields, History } from './history.ts';

/** A view of one buffer object, and the rule that it must follow. */
export class Look {
  readonly history: History;
  readonly rule: Rule;
  readonly buffer: TrajectoryBuffer<typeof fields>;
  readonly view: View;
  readonly what: string;
  constructor(history: History, rule: Rule, buffer: TrajectoryBuffer<typeof fields>, what: string) {
    this.history = history;
    this.rule = rule;
    this.buffer = buffer;
    this.view = viewOf(history.buffer, rule);
    this.what = `${what}, ${ruleName(rule)}`;
  }

  /**
   * Compares the drawable steps, the contents of each of them and a draw. Also checks that a few
   * other ids are rejected.
   */
  look(): void {
    const { history, rule, buffer, view, what } = this;
    const want = drawableIds(history, rule);
    sameSample(
      `${what}: drawable`,
      { ids: buffer.drawableIds(view) },
      { ids: Float64Array.from(want) },
    );
    if (buffer.drawable(view) !== want.length)
      throw new Error(`${what}: drawable() is not ${want.length}`);
    this.refuses(3);
    sameSample(what, buffer.transitionsAt({ view, ids: want }), sampleOf(history, rule, want));
    this.#chosenGoals(want);
    const seed = history.dice.below(2 ** 32);
    const count = 1 + history.dice.below(40);
    if (want.length === 0) {
      expect(refusal(() => buffer.sample({ view, seed, count })).code, what).to.equal(
        'ERR_HOTSLOT_STATE_EMPTY',
      );
      return;
    }
    const drawn = [...uniformIndices({ seed, size: want.length, count })].map(
      (ordinal) => want[ordinal]!,
    );
    const goals = drawnGoals(history, rule, drawn, seed, count);
    sameSample(
      `${what}: seed ${seed}`,
      buffer.sample({ view, seed, count }),
      sampleOf(history, rule, drawn, goals),
    );
  }

  #chosenGoals(ids: readonly number[]): void {
    const { history, rule, buffer, view, what } = this;
    if (rule.strategy === null) return;
    const { dice } = history;
    const goalIds = ids.map((id) => {
      if (dice.chance(0.2)) return -1;
      const { episode, index } = history.at(id);
      const first = rule.strategy === 'episode' ? 0 : index;
      return history.idOf(episode, first + dice.below(episode.steps.length - first));
    });
    sameSample(
      `${what}: chosen goals`,
      buffer.transitionsAt({ view, ids, goalIds }),
      sampleOf(history, rule, ids, goalIds),
    );
  }

  /**
   * Checks that `most` ids are rejected that belong to no drawable step: overwritten, incomplete,
   * final or never written. By default checks all such ids.
   */
  refuses(most = Number.POSITIVE_INFINITY): void {
    const { history, rule, buffer, view, what } = this;
    const drawable = drawableIds(history, rule);
    const others = history.others(drawable);
    const chosen =
      most < others.length ? Array.from({ length: most }, () => history.dice.of(others)) : others;
    for (const id of chosen) {
      const ids = [...drawable.slice(0, 2), id];
      const error = refusal(() => buffer.transitionsAt({ view, ids }));
      if (
        error.code !== 'ERR_HOTSLOT_RANGE' ||
        !error.message.includes(`ids[${ids.length - 1}] = ${id}`)
      )
        throw new Error(`${what}: id ${id} was refused in other words`, { cause: error });
    }
  }
}

/** Exponents for which every implementation of pow gives the same result. */
const ALPHAS = [0, 1, 2] as const;

/** A view with a prioritized sampler. Its leaves are also kept here, by id. */
export class PriorityLook extends Look {
  readonly sampler: PrioritizedSampler;
  readonly #alpha: number;
  readonly #epsilon: number;
  readonly #leaves = new Map<number, number>();
  #largest = 1;

  constructor(history: History, rule: Rule, buffer: TrajectoryBuffer<typeof fields>, what: string) {
    super(history, rule, buffer, `${what}, by priority`);
    this.#alpha = history.dice.of(ALPHAS);
    this.#epsilon = history.dice.of([0, 0.25]);
    const normalize = history.dice.of(['tree', 'batch', 'none'] as const);
    this.sampler = prioritized({ alpha: this.#alpha, epsilon: this.#epsilon, normalize });
    refusal(() => this.sampler.inspect());
    // Binds the sampler to the buffer. Steps that exist already get priority 1.
    const bind = () => buffer.sample({ view: this.view, seed: 0, count: 1, sampler: this.sampler });
    if (this.#follow().length === 0) expect(refusal(bind).code).to.equal('ERR_HOTSLOT_STATE_EMPTY');
    else bind();
  }

  #leaf(priority: number): number {
    return (priority + this.#epsilon) ** this.#alpha;
  }
  #follow(): number[] {
    const ids = drawableIds(this.history, this.rule);
    for (const id of ids)
      if (!this.#leaves.has(id)) this.#leaves.set(id, this.#leaf(this.#largest));
    return ids;
  }

  /**
   * Updates the priorities of drawable steps, overwritten steps and final observations, some of
   * them twice.
   */
  update(): void {
    const { history, buffer } = this;
    const { dice } = history;
    const drawable = this.#follow();
    const written = history
      .others(drawable)
      .filter((id) => id < history.nextId(id % history.lanes));
    const among = dice.chance(0.5) ? drawable : [...drawable, ...written];
    if (among.length === 0) return;
    const ids = Array.from({ length: 1 + dice.below(20) }, () => dice.of(among));
    const priorities = ids.map(() =>
      dice.chance(0.2) ? 0 : dice.below(dice.of([4, 4, 4, 4096])) / 4,
    );
    buffer.updatePriorities(ids, dice.chance(0.5) ? Float32Array.from(priorities) : priorities);
    const there = new Set(drawable);
    ids.forEach((id, i) => {
      if (!there.has(id)) return;
      this.#leaves.set(id, this.#leaf(priorities[i]!));
      this.#largest = Math.max(this.#largest, priorities[i]!);
    });
  }

  override look(): void {
    super.look();
    const { history, rule, buffer, view, sampler, what } = this;
    const ids = this.#follow();
    const leaves = new Float64Array(history.lanes * history.perLane);
    const idAt = new Map<number, number>();
    for (const id of ids) {
      const at =
        (id % history.lanes) * history.perLane + (Math.floor(id / history.lanes) % history.perLane);
      leaves[at] = this.#leaves.get(id)!;
      idAt.set(at, id);
    }
    const inspected = sampler.inspect();
    // A leaf may differ by a relative 2e-15. Leaves that are zero must be equal.
    for (const [at, leaf] of inspected.leaves.entries()) {
      const wanted = leaves[at]!;
      if (!(Math.abs(leaf - wanted) <= 2e-15 * wanted))
        throw new Error(`${what}: leaf ${at} is ${leaf}, not ${wanted}`);
    }
    leaves.set(inspected.leaves);
    expect(inspected.maxPriority, what).to.equal(this.#largest);
    const total = leaves.reduce((a, b) => a + b, 0);
    expect(inspected.total, what).to.be.closeTo(total, 1e-14 * total);
    const seed = history.dice.below(2 ** 32);
    const [count, beta] = [1 + history.dice.below(40), history.dice.of([0, 0.4, 1])];
    const draw = () => buffer.sample({ view, seed, count, sampler, beta });
    if (inspected.total === 0) {
      expect(refusal(draw).code, what).to.equal('ERR_HOTSLOT_STATE_EMPTY');
      return;
    }
    const { normalize } = sampler;
    const { indices, weights, probabilities } = prioritizedIndices({
      seed,
      count,
      beta,
      normalize,
      leaves,
    });
    const drawn = [...indices].map((at) => idAt.get(at)!);
    const goals = drawnGoals(history, rule, drawn, seed, 2 * count);
    sameSample(`${what}: seed ${seed}`, draw(), {
      ...sampleOf(history, rule, drawn, goals),
      weights,
      probabilities,
    });
  }
}
