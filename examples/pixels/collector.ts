/** Plays the games of a worker's lanes, epsilon-greedily by the newest weights, and brings each frame once. */
import { defineCollector, Random } from '../../src/index.ts';
import { linear, MlpPolicy, Network } from '../../src/learner/index.ts';
import { ACTIONS, CatchGames, FRAME } from './catch.ts';
import { body, type fields, type Settings } from './settings.ts';

export default defineCollector<Settings, typeof fields>()(({ writer, workers, seed, options, report }) => {
  const { lanes, firstLane } = writer;
  const { stack, exploreSteps, leastEpsilon } = options;
  const random = new Random(seed, 2 * firstLane + 1);
  const games = new CatchGames(lanes, new Random(seed, 2 * firstLane));
  const policy = new MlpPolicy(new Network([...body(options), linear(options.hidden, ACTIONS)]));
  const returns = new Float32Array(lanes);
  const lengths = new Int32Array(lanes);
  const step = {
    obs: new Uint8Array(lanes * FRAME),
    finalObs: games.frames,
    actions: new Uint8Array(lanes),
    rewards: games.rewards,
    terminated: new Uint8Array(lanes),
    truncated: new Uint8Array(lanes),
  };
  /** the last frames of each game from 0 to 1, oldest first: what the network sees */
  const seen = new Float32Array(lanes * stack * FRAME);
  const look = (game: number, isFirst: boolean) => {
    const mine = seen.subarray(game * stack * FRAME, (game + 1) * stack * FRAME);
    mine.copyWithin(0, FRAME);
    const newest = mine.subarray((stack - 1) * FRAME);
    const frame = games.frame(game);
    for (let at = 0; at < FRAME; at++) newest[at] = (frame[at] as number) / 255;
    // Before an episode's first frame stands that frame, as the view pads it.
    if (isFirst) for (let before = 0; before < stack - 1; before++) mine.set(newest, before * FRAME);
  };
  for (let game = 0; game < lanes; game++) look(game, true);
  /** games whose last frame was handed over: the next step begins them anew */
  const ended: number[] = [];
  let steps = 0;
  let acts = false;

  return {
    load(weights) {
      policy.load(weights);
      acts = true;
    },
    collect() {
      for (const game of ended.splice(0)) {
        games.reset(game);
        look(game, true);
      }
      step.obs.set(games.frames);
      const greedy = acts ? policy.act(seen, lanes) : null;
      const epsilon = Math.max(leastEpsilon, 1 - ((1 - leastEpsilon) * steps * workers) / exploreSteps);
      for (let game = 0; game < lanes; game++) {
        const explores = greedy === null || random.next() < epsilon;
        const action = explores ? random.below(ACTIONS) : greedy[game]!;
        games.step(game, action);
        step.actions[game] = action;
        returns[game]! += games.rewards[game]!;
        lengths[game]!++;
        if (!games.over(game)) {
          look(game, false);
          continue;
        }
        ended.push(game);
        report.episode(returns[game]!, lengths[game]!);
        returns[game] = lengths[game] = 0;
      }
      step.terminated.set(games.terminated);
      step.truncated.set(games.truncated);
      steps += lanes;
      report.steps(lanes);
      return step;
    },
  };
});
