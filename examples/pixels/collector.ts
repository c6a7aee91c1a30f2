/**
 * Plays the games of a worker's lanes with an epsilon-greedy policy and the newest weights. It adds
 * each frame once.
 */
import { vectorCollector } from '../../src/entries/collect.ts';
import { DqnPolicy } from '../../src/entries/learner.ts';
import Catch from '../environments/catch.ts';
import { network, type Settings } from './settings.ts';

/** A policy that scales bytes to the range from 0 to 1, as the learner does. */
export class PixelPolicy extends DqnPolicy {
  #seen = new Float32Array(0);

  override act(bytes: Float32Array, games: number) {
    if (this.#seen.length !== bytes.length) this.#seen = new Float32Array(bytes.length);
    for (let at = 0; at < bytes.length; at++) this.#seen[at] = (bytes[at] as number) / 255;
    return super.act(this.#seen, games);
  }
}

export default (context: Parameters<ReturnType<typeof vectorCollector<Settings>>>[0]) => {
  const { stack, exploreSteps, leastEpsilon } = context.options;
  const collector = vectorCollector<Settings>({
    make: () => new Catch(),
    stack,
    policy: () => new PixelPolicy(network(context.options)),
    explore: { epsilon: { to: leastEpsilon, steps: exploreSteps } },
  });
  return collector(context);
};
