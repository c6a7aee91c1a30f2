/**
 * Trains with weights that do not fit on the device. Each layer is prefetched while the one before
 * it is used. Layers are sent back when others need the memory.
 */

import { deviceNamed, Refused, runExample, wrapped } from '../../../examples/command-line.ts';
import { showProgress } from '../../../src/entries/collect.ts';
import {
  compilationError,
  compileAllocator,
  createUnifiedMempool,
  type UnifiedMempool,
} from '../../../src/entries/memory.ts';
import { Network } from './network.ts';
import { type CommandLine, help, layerBytes, parseCommandLine } from './options.ts';
import { WeightWindow } from './window.ts';

interface Run {
  losses: number[];
  /** median milliseconds of a step, without the first step */
  stepMs: number;
  peak: number;
  /**
   * the most bytes that the driver reported on the device between two steps, or −1 if it cannot
   * report
   */
  peakByDriver: number;
}

async function train(
  pool: UnifiedMempool,
  settings: CommandLine,
  prefetch: boolean,
  tell: (step: object) => void,
): Promise<Run> {
  const { device } = pool;
  const { layers, width, steps, budget } = settings;
  using network = new Network(pool, layers, width);
  using work = device.createStream();
  await device.currentStream.synchronize(); // The values must be written before `work` uses them.
  const up = [...network.weights.keys()];
  using window = new WeightWindow(
    device,
    work,
    network.weights,
    [...up, ...up.toReversed()],
    budget,
  );
  const losses: number[] = [];
  const times: number[] = [];
  let peakByDriver = -1;
  for (let step = 0; step < steps; step++) {
    const begin = performance.now();
    for (let turn = 0; turn < 2 * layers; turn++) {
      window.enter(turn);
      if (turn < layers) network.forward(work, turn);
      else network.backward(work, 2 * layers - 1 - turn);
      if (turn === layers - 1) network.compare(work);
      window.leave(turn, prefetch);
    }
    const loss = await network.loss(work);
    await window.settled();
    times.push(performance.now() - begin);
    losses.push(loss);
    tell({ prefetch, step, loss, ms: times.at(-1) });
    if (prefetch && device.traits.movesPages)
      peakByDriver = Math.max(peakByDriver, window.bytesByDriver);
  }
  for (const tensor of network.weights) tensor.close();
  const sorted = times.slice(1).sort((a, b) => a - b);
  return { losses, stepMs: sorted[sorted.length >> 1] as number, peak: window.peak, peakByDriver };
}

async function main(settings: CommandLine): Promise<number> {
  const { json, layers, width, steps, budget } = settings;
  const say = (text: string) => json || console.log(wrapped(text));
  const mib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  await compileAllocator();
  // This comes before a device is opened. A driver that blocks in the probe would block this
  // process too.
  const none = compilationError();
  if (none) throw new Refused(`managed memory is unavailable: ${none.message}`);
  using opened = deviceNamed(settings.device);
  using pool = createUnifiedMempool(opened);
  const { name: device, traits, family } = opened;
  const total = layers * layerBytes(width);
  say(
    `${device}: ${layers} layers of ${width} × ${width}, ${mib(total)} of weights, a budget of ${mib(budget)}\n`,
  );

  const run = (prefetch: boolean) => {
    let done = 0;
    const training = train(pool, settings, prefetch, (step) => {
      done++;
      if (json) console.log(JSON.stringify(step));
    });
    const how = prefetch ? 'with' : 'without';
    return showProgress(
      training,
      json ? {} : { live: () => [`${how} prefetch: step ${done} of ${steps}`] },
    );
  };
  const ahead = await run(true);
  const demand = await run(false);

  const equal = ahead.losses.every((loss, i) => Object.is(loss, demand.losses[i]));
  const [first, last] = [ahead.losses[0] as number, ahead.losses.at(-1) as number];
  const most = Math.max(ahead.peak, demand.peak, ahead.peakByDriver);
  // If pages cannot be sent back, the budget cannot be kept.
  const ok = equal && last < first && (most <= budget || !traits.movesPages);
  for (const [step, loss] of ahead.losses.entries())
    say(`step ${String(step).padStart(2)}  loss ${loss.toFixed(6)}`);
  if (!(last < first)) say('The loss did NOT fall.');
  say(`\nlosses with and without prefetch: ${equal ? 'equal, bit for bit' : 'NOT equal'}`);
  say(`on the device at most: ${mib(ahead.peak)} of ${mib(total)}, of a budget of ${mib(budget)}`);
  if (ahead.peakByDriver >= 0)
    say(`after a step, as the driver tells: at most ${mib(ahead.peakByDriver)}`);
  say(
    `time per step: ${ahead.stepMs.toFixed(2)} ms with prefetch, ${demand.stepMs.toFixed(2)} ms without`,
  );
  if (!traits.movesPages)
    say(
      'This driver sends no pages back, so the weights stay on the device and the budget cannot be kept.',
    );
  if (family === 'host')
    say(
      'The CPU device and the CPU share their memory: a prefetch makes pages and says whose they are, ' +
        'it moves nothing. So the times show what a prefetch costs here, not what it gains on a device with memory of its own.',
    );
  const summary = {
    ok,
    device,
    equal,
    firstLoss: first,
    lastLoss: last,
    totalBytes: total,
    budgetBytes: budget,
    peakBytes: ahead.peak,
    stepMs: ahead.stepMs,
    stepMsWithout: demand.stepMs,
    peakByDriverBytes: ahead.peakByDriver,
  };
  if (json) console.log(JSON.stringify(summary));
  return ok ? 0 : 1;
}

await runExample({ name: 'offload-weights', help, parse: parseCommandLine, main });
