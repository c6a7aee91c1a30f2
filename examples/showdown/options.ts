/** The command line of the example: how long it learns, and whether a battle is told afterwards. */
import { flag, parseOptions, positive, whole } from '../command-line.ts';

export const help = `Learns to battle in Pokémon Showdown's simulator, three against three, by DQN.

usage: npm install --no-save @pkmn/sim@0.10.11
       npm run showdown -- [options]

  --goal R        stop at this mean return (default 0.9: about four battles of five are won)
  --steps N       choices at most (default 100000)
  --seed N        (default 1)
  --device NAME   auto, host:0, … (default auto)
  --tell          tells one of its battles in the end
  --json          the result as one JSON object
  --help          this text

exit code: 0 the goal was reached, 1 it was not, 2 wrong usage, 130 interrupted
`;

export interface CommandLine {
  /** of 200 greedy battles: above 0 each that was won */
  goal: number;
  steps: number;
  seed: number;
  device: string;
  tell: boolean;
  json: boolean;
}

/** Throws UsageError; null: --help was asked for. */
export function parseCommandLine(args: readonly string[]): CommandLine | null {
  const text = (value: string) => ({ type: 'string', default: value }) as const;
  const values = parseOptions(args, {
    goal: text('0.9'),
    steps: text('100000'),
    seed: text('1'),
    device: text('auto'),
    tell: flag,
    json: flag,
  });
  if (!values) return null;
  const { device, tell, json } = values;
  return {
    goal: positive('goal', values.goal),
    steps: whole('steps', values.steps, 1001),
    seed: whole('seed', values.seed, 0),
    device,
    tell,
    json,
  };
}
