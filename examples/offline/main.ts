/**
 * Learns Pendulum by TD3+BC from a file that SAC made, without a step in the environment. At the
 * end it evaluates the policy.
 */
import { deviceNamed, interruption, runExample } from '../command-line.ts';
import { makeData, openData, task } from './data.ts';
import { judge, learn } from './learn.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';

const INTERRUPTED = 130;

async function main(given: CommandLine): Promise<number> {
  const { data, seed, device, json, quiet, episodes } = given;
  deviceNamed(device).close();
  const signal = interruption();
  const print = (line: string) => process.stdout.write(`${line}\n`);
  const say = (line: string) => {
    if (!json && !quiet) print(line);
  };
  const ended = () => {
    print(json ? JSON.stringify({ interrupted: true }) : 'interrupted: nothing was judged');
    return INTERRUPTED;
  };

  const begin = performance.now();
  const made = await makeData(data, { seed, device, signal, display: !json && !quiet });
  if (made?.interrupted) return ended();
  if (made)
    say(
      `${data}: made by SAC in ${made.seconds.toFixed(1)} s, which came to ${made.meanReturn?.toFixed(1)} at last`,
    );

  const file = await openData(data);
  const count = (value: number) => value.toLocaleString('en-US');
  say(
    `${data}: ${count(file.rows)} rows to learn from, mean return ${file.meanReturn.toFixed(1)} over ${count(file.episodes)} episodes`,
  );
  const learning = performance.now();
  const policy = await learn(file.buffer, { ...given, signal, say });
  const seconds = (performance.now() - learning) / 1000;
  if (policy === null) return ended();
  const { meanReturn, deviation } = await judge(policy, { episodes, seed, signal }).catch(
    (error: unknown) => {
      if (signal.aborted) return { meanReturn: Number.NaN, deviation: Number.NaN };
      throw error;
    },
  );
  if (signal.aborted) return ended();
  const solved = meanReturn >= task.goal;
  if (json)
    print(
      JSON.stringify({
        environment: task.id,
        data,
        rows: file.rows,
        dataReturn: file.meanReturn,
        dataEpisodes: file.episodes,
        solved,
        meanReturn,
        deviation,
        episodes,
        steps: given.steps,
        alpha: given.alpha,
        seed,
        device,
        seconds,
        made: made !== null,
        interrupted: false,
      }),
    );
  else {
    print(
      `TD3+BC ${solved ? 'solved' : 'did not solve'} ${task.id} from the file: mean return ${meanReturn.toFixed(1)} ± ${deviation.toFixed(1)} over ${count(episodes)} episodes, wanted ${task.goal}`,
    );
    print(
      `the file's own episodes: ${file.meanReturn.toFixed(1)}; learned in ${seconds.toFixed(1)} s, ${((performance.now() - begin) / 1000).toFixed(1)} s in all`,
    );
  }
  return solved ? 0 : 1;
}

await runExample({ name: 'offline', help, parse: parseCommandLine, main });
