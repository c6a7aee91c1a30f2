/** Command line of the example: the limits of the training, and a flag to print a battle. */
import { commandLine, device, flag, positive, products, seed, whole } from '../command-line.ts';

export const { help, parse: parseCommandLine } = commandLine({
  intro: `Learns to battle in Pokémon Showdown's simulator, three against three, by DQN.`,
  usage: 'npm install --no-save @pkmn/sim@0.10.11\n       npm run showdown -- [options]',
  options: {
    goal: positive(
      'stop at this mean return of 200 greedy battles. 0.9 is about four of five won',
      {
        default: 0.9,
        placeholder: 'R',
      },
    ),
    steps: whole('maximum of choices', { min: 1001, default: 100_000 }),
    seed: seed('seed of weights, draws and battles'),
    device: device(),
    products: products(),
    tell: flag('prints one of its battles at the end'),
    json: flag('the result as one JSON object'),
  },
  after: 'exit code: 0 the goal was reached, 1 it was not, 2 wrong usage, 130 interrupted',
});

export type CommandLine = NonNullable<ReturnType<typeof parseCommandLine>>;
