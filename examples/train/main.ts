/** Trains DQN, TD3 or SAC on an environment of the examples, with one call of train(). */
import { createHash } from 'node:crypto';
import { type TrainParts, train } from '../../src/entries/collect.ts';
import type { Monitor } from '../../src/entries/monitor.ts';
import { deviceNamed, interruption, runExample } from '../command-line.ts';
import { openMonitor, whileConnected } from '../monitor.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';

async function main(commandLine: CommandLine): Promise<number> {
  const {
    name,
    task,
    algorithm,
    preset,
    checkpoint,
    seed,
    device,
    products,
    monitor: port,
    json,
    quiet,
  } = commandLine;
  deviceNamed(device, products).close();
  const say = (line: string) => process.stdout.write(`${line}\n`);
  if (!json && !quiet)
    say(`${algorithm} on ${task.id}: seed ${seed}, ${device}, goal ${task.goal}`);
  const signal = interruption();
  let monitor: Monitor | null = null;
  const onOpen = async (parts: TrainParts) => {
    if (port === undefined) return;
    const opened = await openMonitor(
      { ...parts, title: `${algorithm} on ${task.id}, seed ${seed}` },
      port,
    );
    monitor = opened.monitor;
    console.error(opened.text);
  };
  const result = await train({
    ...preset,
    environment: task.module,
    environmentOptions: task.options,
    goal: task.goal,
    seed,
    device,
    signal,
    ...(products && { products }),
    display: !json && !quiet,
    onOpen,
    ...(checkpoint && { checkpoint }),
    onPoint: (point) => {
      monitor?.scalar('evaluation/return', point.meanReturn, point.steps);
      if (json && !quiet) say(JSON.stringify(point));
    },
  });
  const { solved, meanReturn, steps, updates, seconds, curve } = result;
  if (json) {
    const looks = curve.map(({ steps, seconds, meanReturn, deviation }) => ({
      steps,
      seconds,
      meanReturn,
      deviation,
    }));
    say(
      JSON.stringify({
        environment: task.id,
        algorithm,
        seed,
        device,
        solved,
        meanReturn,
        steps,
        updates,
        seconds,
        interrupted: result.interrupted,
        // hash of the weights. Two runs with --deterministic and one seed have equal hashes
        weights: createHash('sha256').update(result.weights).digest('hex').slice(0, 16),
        curve: looks,
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
  if (monitor) await whileConnected(monitor, signal);
  await (monitor as Monitor | null)?.close();
  return solved ? 0 : result.interrupted ? 130 : 1;
}

await runExample({ name: 'train', help, parse: parseCommandLine, main });
