/**
 * The battle of examples/showdown without a mask, as a comparison. It plays a random legal action in
 * place of an illegal one, so a buffer stores an action that was not played.
 */
import Showdown from '../../examples/showdown/battle.ts';
import type { Environment, Step } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';

/** Stream of a battle's seed from which the replacements are drawn. */
const STREAM = 1;

export default class UnmaskedBattle implements Environment<number> {
  readonly #battle = new Showdown();
  readonly observationSpace = this.#battle.observationSpace;
  readonly actionSpace = this.#battle.actionSpace;
  readonly maxEpisodeSteps = this.#battle.maxEpisodeSteps;
  #random = new Random(0, STREAM);

  reset(seed: number): number[] {
    this.#random = new Random(seed, STREAM);
    return this.#battle.reset(seed);
  }

  step(action: number): Step {
    const legal = this.#battle.actionMask().flatMap((isLegal, i) => (isLegal ? [i] : []));
    const played = legal.includes(action) ? action : legal[this.#random.below(legal.length)]!;
    return this.#battle.step(played);
  }

  close(): void {
    this.#battle.close();
  }
}
