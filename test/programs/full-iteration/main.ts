/**
 * Runs the same training twice, eagerly and as one graph per iteration. Compares the weights bit
 * for bit and prints the time of each.
 */

import { deviceNamed, runExample } from '../../../examples/command-line.ts';
import { showProgress } from '../../../src/entries/collect.ts';
import { FullGraphWrapper } from '../../../src/entries/graph.ts';
import { type Device, Random } from '../../../src/index.ts';
import { type CommandLine, help, parseCommandLine } from './options.ts';
import { batchOf, Regression } from './regression.ts';

/**
 * Trains from the seed. Returns the microseconds per iteration in the calling thread and in total.
 */
async function train(
  device: Device,
  { iterations, seed }: CommandLine,
  warmupSteps: number,
  tell: (i: number) => void,
) {
  const model = new Regression(device, seed);
  const random = new Random(seed);
  const data = (function* () {
    for (;;) yield batchOf(random);
  })();
  using wrapper = new FullGraphWrapper<Regression>(
    (args, context) => args.model.iterate(args, context),
    {
      warmupSteps,
    },
  );
  const called: number[] = [];
  await device.currentStream.synchronize(); // The weights must be written before a capture begins.
  const begin = performance.now();
  for (let i = 0; i < iterations; i++) {
    const before = performance.now();
    wrapper.run({
      model,
      dataIterator: data,
      numMicrobatches: 2,
      seqLength: 1,
      forwardOnly: false,
    });
    called.push((performance.now() - before) * 1000);
    if (i % 64 !== 63) continue;
    await device.currentStream.synchronize(); // limits the queue
    tell(i + 1);
  }
  await device.currentStream.synchronize();
  const all = ((performance.now() - begin) * 1000) / iterations;
  const error = await model.error(batchOf(new Random(seed, 1)));
  const weights = Buffer.from((await model.parameters.toArray()).buffer);
  const captured = wrapper.graph.training !== null;
  model.close();
  return {
    caller: called.sort((a, b) => a - b)[iterations >> 1] as number,
    all,
    error,
    weights,
    captured,
  };
}

async function main(commandLine: CommandLine): Promise<number> {
  const { json, iterations } = commandLine;
  using device = deviceNamed(commandLine.device);
  const run = (how: string, warmupSteps: number) => {
    let done = 0;
    const training = train(device, commandLine, warmupSteps, (iteration) => {
      done = iteration;
    });
    return showProgress(
      training,
      json ? {} : { live: () => [`${how}: iteration ${done} of ${iterations}`] },
    );
  };
  const eager = await run('eager', iterations);
  const graph = await run('one graph, replayed', 1);
  const equal = eager.weights.equals(graph.weights);
  const summary = {
    device: device.name,
    iterations,
    equal,
    captured: graph.captured,
    error: graph.error,
    eager: { callerMicroseconds: eager.caller, microseconds: eager.all },
    graph: { callerMicroseconds: graph.caller, microseconds: graph.all },
  };

  if (json) console.log(JSON.stringify(summary));
  else {
    const line = (name: string, { caller, all }: { caller: number; all: number }) =>
      `  ${name.padEnd(22)} ${caller.toFixed(1).padStart(13)} ${all.toFixed(1).padStart(8)}`;
    console.log(
      `${iterations} iterations of two updates each on ${summary.device}, µs per iteration:\n`,
    );
    console.log(`  ${''.padEnd(22)} ${'in the caller'.padStart(13)} ${'in all'.padStart(8)}`);
    console.log(line('eager', eager));
    console.log(line('one graph, replayed', graph));
    console.log(
      `\nmean squared error ${graph.error.toFixed(5)}; the weights are ${equal ? 'equal bit for bit' : 'DIFFERENT'}`,
    );
  }
  return equal && graph.captured ? 0 : 1;
}

await runExample({ name: 'full-iteration', help, parse: parseCommandLine, main });
