/**
 * Trains DQN to battle in a simulator that is a TypeScript package, and prints the share of battles
 * that it wins.
 */
import { evaluate, type Policy, train } from '../../src/entries/collect.ts';
import { Random } from '../../src/index.ts';
import { deviceNamed, interruption, Refused, runExample } from '../command-line.ts';
import type Showdown from './battle.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { CHOICES } from './sight.ts';
import { told } from './tell.ts';

const BATTLES = 500;
const SEED = 1;

async function main({ goal, steps, seed, device, tell, json }: CommandLine): Promise<number> {
  deviceNamed(device).close();
  const module = new URL('./battle.js', import.meta.url);
  const { default: Battles } = (await import(module.href).catch((error: Error) => {
    throw new Refused(error.message);
  })) as { default: new () => Showdown };
  const { solved, meanReturn, seconds, interrupted, policy, ...reached } = await train({
    environment: module,
    learner: { algorithm: 'dqn', hidden: [64, 64], batchSize: 256, learningRate: 3e-4, gamma: 0.9 },
    environments: 4,
    workers: 1,
    steps,
    warmUp: 2_000,
    minibatches: 4,
    explore: { epsilon: { to: 0.05, steps: 10_000 } },
    evaluation: { every: 5_000, episodes: 200, confirm: 200 },
    goal,
    seed,
    device,
    display: !json,
    signal: interruption(),
  });
  if (interrupted || meanReturn === null) return 130;
  const environments = Array.from({ length: 16 }, () => new Battles());
  const won = await battlesWon(environments, policy);
  const before = await battlesWon(environments, anything);
  if (json)
    console.log(JSON.stringify({ solved, meanReturn, won, before, steps: reached.steps, seconds }));
  else {
    console.log(
      `after ${reached.steps} choices and ${seconds.toFixed(1)} s: mean return ${meanReturn.toFixed(2)}`,
    );
    console.log(
      `of ${BATTLES} battles it wins ${percent(won)}; choosing anything wins ${percent(before)}`,
    );
  }
  if (tell) for (const line of tellOne(environments[0]!, policy)) console.log(line);
  for (const environment of environments) environment.close();
  return solved ? 0 : 1;
}

const percent = (share: number) => `${(100 * share).toFixed(0)} %`;

/** A policy that chooses at random among the six choices. */
const random = new Random(SEED);
const anything: Policy = {
  act: (_, n) => Float32Array.from({ length: n }, () => random.below(CHOICES)),
};

/** Returns the share of battles that the policy wins. */
async function battlesWon(environments: readonly Showdown[], policy: Policy): Promise<number> {
  const { returns } = await evaluate({ environments, policy, episodes: BATTLES, seed: SEED });
  return returns.filter((value) => value > 0).length / BATTLES;
}

/** Plays one battle and returns its text. */
function tellOne(environment: Showdown, policy: Policy): string[] {
  for (let obs = environment.reset(SEED); ; ) {
    const step = environment.step(policy.act(Float32Array.from(obs), 1)[0]!);
    if (step.terminated) return told(environment.battle.log);
    obs = step.obs as number[];
  }
}

await runExample({ name: 'showdown', help, parse: parseCommandLine, main });
