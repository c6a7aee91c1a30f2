/**
 * Trains on an environment in Python. Each collector thread starts a Python process that steps it,
 * and talks to it over two pipes.
 */
import { train } from '../../src/entries/collect.ts';
import { deviceNamed, interruption, runExample } from '../command-line.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';

async function main(given: CommandLine): Promise<number> {
  const { environment, algorithm, environments, goal, steps, seed, device, json } = given;
  deviceNamed(device).close();
  const nets = { actorHidden: [64, 64], criticHidden: [64, 64] };
  const result = await train({
    environment: new URL('./environments.js', import.meta.url),
    environmentOptions: environment,
    learner: algorithm === 'dqn' ? { algorithm, hidden: [64, 64] } : { algorithm, ...nets },
    environments,
    steps,
    seed,
    device,
    display: !json,
    signal: interruption(),
    ...(goal !== undefined && { goal }),
  });
  const { solved, meanReturn, seconds, interrupted } = result;
  if (json) console.log(JSON.stringify({ solved, meanReturn, steps: result.steps, seconds }));
  else {
    const worth =
      meanReturn === null
        ? 'no weights were looked at yet'
        : `mean return ${meanReturn.toFixed(2)}`;
    const reached = goal === undefined ? '' : solved ? ', solved' : ', not solved';
    console.log(
      `${environment.id ?? environment.entry}: ${worth} after ${result.steps} steps, ${seconds.toFixed(1)} s${reached}`,
    );
  }
  if (interrupted) return 130;
  return solved || goal === undefined ? 0 : 1;
}

await runExample({ name: 'gymnasium', help, parse: parseCommandLine, main });
