/**
 * Trains DQN to battle with masks of legal actions and without, until it wins 80 % of 500 battles.
 * The two trainings differ in the environment only.
 */
import { battlesWon, settings } from '../../examples/showdown/training.ts';
import { train } from '../../src/entries/collect.ts';
import { keepRun, rounded } from './record.ts';

/** The module of each training's environment. */
export const battles: Readonly<Record<string, URL>> = {
  'Showdown-masked': new URL('../../examples/showdown/battle.js', import.meta.url),
  'Showdown-unmasked': new URL('./unmasked-battle.js', import.meta.url),
};

const STEPS = 300_000;
const EVERY = 1_000;
const WANTED = 0.8;

export async function trainBattles(
  name: string,
  seed: number,
  say: (line: string) => void,
): Promise<void> {
  const environment = battles[name]!;
  const { default: Battle } = await import(environment.href);
  const environments = Array.from({ length: 16 }, () => new Battle());
  const reached = new AbortController();
  const { steps, updates, seconds, curve } = await train({
    ...settings,
    environment,
    seed,
    steps: STEPS,
    device: 'host:0',
    deterministic: true,
    signal: reached.signal,
    evaluation: {
      every: EVERY,
      evaluate: ({ policy, seed: drawn }) => battlesWon(environments, policy, drawn),
    },
    onPoint({ steps: at, meanReturn }) {
      say(`${name} seed ${seed}: ${at} choices, ${(100 * meanReturn).toFixed(1)} % won`);
      if (meanReturn >= WANTED) reached.abort();
    },
  });
  for (const each of environments) each.close();
  const command = `npm run curves -- ${name} --seeds 1-3`;
  keepRun(
    name,
    { environment: name, algorithm: 'dqn', episodes: 500, command },
    {
      seed,
      steps,
      updates,
      seconds: Number(seconds.toFixed(2)),
      curve: curve.map((point) => rounded(point, 3)),
    },
  );
}
