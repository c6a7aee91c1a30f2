/**
 * Trains DQN to battle in a simulator that is a TypeScript package, and prints the share of battles
 * that it wins.
 */
import { type Policy, train } from '../../src/entries/collect.ts';
import { deviceNamed, interruption, Refused, runExample } from '../command-line.ts';
import type Showdown from './battle.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { told } from './tell.ts';
import { battlesWon, randomLegal, settings } from './training.ts';

const SEED = 1;

async function main(given: CommandLine): Promise<number> {
  const { goal, steps, seed, device, products, tell, json } = given;
  deviceNamed(device, products).close();
  const module = new URL('./battle.js', import.meta.url);
  const { default: Battles } = (await import(module.href).catch((error: Error) => {
    throw new Refused(error.message);
  })) as { default: new () => Showdown };
  const { solved, meanReturn, seconds, interrupted, policy, ...reached } = await train({
    ...settings,
    environment: module,
    steps,
    evaluation: { every: 5_000, episodes: 200, confirm: 200 },
    goal,
    seed,
    device,
    ...(products && { products }),
    display: !json,
    signal: interruption(),
  });
  if (interrupted || meanReturn === null) return 130;
  const environments = Array.from({ length: 16 }, () => new Battles());
  const won = await battlesWon(environments, policy, SEED);
  const before = await battlesWon(environments, randomLegal(SEED), SEED);
  if (json)
    console.log(JSON.stringify({ solved, meanReturn, won, before, steps: reached.steps, seconds }));
  else {
    console.log(
      `after ${reached.steps} choices and ${seconds.toFixed(1)} s: mean return ${meanReturn.toFixed(2)}`,
    );
    console.log(
      `it wins ${percent(won)} of 500 battles, and random legal choices win ${percent(before)}`,
    );
  }
  if (tell) for (const line of tellOne(environments[0]!, policy)) console.log(line);
  for (const environment of environments) environment.close();
  return solved ? 0 : 1;
}

const percent = (share: number) => `${(100 * share).toFixed(0)} %`;

/** Plays one battle and returns its text. */
function tellOne(environment: Showdown, policy: Policy): string[] {
  for (let obs = environment.reset(SEED); ; ) {
    const mask = Uint8Array.from(environment.actionMask(), Number);
    const step = environment.step(policy.act(Float32Array.from(obs), 1, { mask })[0]!);
    if (step.terminated) return told(environment.battle.log);
    obs = step.obs as number[];
  }
}

await runExample({ name: 'showdown', help, parse: parseCommandLine, main });
