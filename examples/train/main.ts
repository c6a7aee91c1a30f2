/** Trains DQN, TD3 or SAC on an environment of the examples, by one call of train(). */
import { train } from '../../src/collect/index.ts';
import { deviceNamed, interruption, runExample } from '../command-line.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';

async function main(commandLine: CommandLine): Promise<number> {
  const { name, task, algorithm, preset, checkpoint, seed, device, json, quiet } = commandLine;
  deviceNamed(device).close();
  const say = (line: string) => process.stdout.write(`${line}\n`);
  if (!json && !quiet) say(`${algorithm} on ${task.id}: seed ${seed}, ${device}, goal ${task.goal}`);
  const result = await train({
    ...preset,
    ...{ environment: task.module, environmentOptions: task.options, goal: task.goal, seed, device },
    ...{ signal: interruption(), display: !json && !quiet },
    ...(checkpoint && { checkpoint }),
    ...(json && !quiet ? { onPoint: (point) => say(JSON.stringify(point)) } : {}),
  });
  const { solved, meanReturn, steps, updates, seconds, curve } = result;
  if (json) {
    const looks = curve.map(({ steps, seconds, meanReturn, deviation }) => ({ steps, seconds, meanReturn, deviation }));
    say(
      JSON.stringify({
        ...{ environment: task.id, algorithm, seed, device, solved, meanReturn, steps, updates, seconds },
        ...{ interrupted: result.interrupted, curve: looks },
      }),
    );
  } else {
    const last = curve.at(-1);
    const worth = last
      ? `mean return ${last.meanReturn.toFixed(1)} ± ${last.deviation.toFixed(1)} over ${last.episodes} greedy episodes`
      : 'no weights were looked at yet';
    const how = solved ? 'solved in' : result.interrupted ? 'interrupted after' : 'not solved in';
    const count = (value: number) => value.toLocaleString('en-US');
    say(`${name} ${how} ${seconds.toFixed(1)} s: ${worth}`);
    say(`${count(steps)} environment steps, ${count(updates)} updates`);
  }
  return solved ? 0 : result.interrupted ? 130 : 1;
}

await runExample({ name: 'train', help, parse: parseCommandLine, main });
