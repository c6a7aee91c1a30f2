/** The same training twice, eagerly and as one captured graph per iteration: equal weights bit for bit, and what each costs. */
import { type Device, FullGraphWrapper } from '../../src/index.ts';
import { Random } from '../cartpole-dqn/random.ts';
import { deviceNamed, runExample } from '../command-line.ts';
import { help, parseCommandLine, type Settings } from './options.ts';
import { batchOf, Regression } from './regression.ts';

/** Trains anew from the same seed; microseconds per iteration in the calling thread, and in all. */
async function train(device: Device, { iterations, seed }: Settings, warmupSteps: number) {
  const model = new Regression(device, seed);
  const random = new Random(seed);
  const data = (function* () {
    for (;;) yield batchOf(() => random.next());
  })();
  using wrapper = new FullGraphWrapper<Regression>((args, context) => args.model.iterate(args, context), {
    warmupSteps,
  });
  const called: number[] = [];
  await device.currentStream.synchronize(); // the weights are in place before anything is captured
  const begin = performance.now();
  for (let i = 0; i < iterations; i++) {
    const before = performance.now();
    wrapper.run({ model, dataIterator: data, numMicrobatches: 2, seqLength: 1, forwardOnly: false });
    called.push((performance.now() - before) * 1000);
    if (i % 64 === 63) await device.currentStream.synchronize(); // no endless queue
  }
  await device.currentStream.synchronize();
  const all = ((performance.now() - begin) * 1000) / iterations;
  const check = new Random(seed + 1);
  const error = await model.error(batchOf(() => check.next()));
  const weights = Buffer.from((await model.parameters.toArray()).buffer);
  const captured = wrapper.graph.training !== null;
  model.close();
  return { caller: called.sort((a, b) => a - b)[iterations >> 1] as number, all, error, weights, captured };
}

async function main(args: readonly string[]): Promise<number> {
  const commandLine = parseCommandLine(args);
  if (!commandLine) {
    process.stdout.write(help);
    return 0;
  }
  const { json, settings } = commandLine;
  const { iterations } = settings;
  using device = deviceNamed(settings.device);
  const eager = await train(device, settings, iterations);
  const graph = await train(device, settings, 1);
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
    console.log(`${iterations} iterations of two updates each on ${summary.device}, µs per iteration:\n`);
    console.log(`  ${''.padEnd(22)} ${'in the caller'.padStart(13)} ${'in all'.padStart(8)}`);
    console.log(line('eager', eager));
    console.log(line('one graph, replayed', graph));
    console.log(
      `\nmean squared error ${graph.error.toFixed(5)}; the weights are ${equal ? 'equal bit for bit' : 'DIFFERENT'}`,
    );
  }
  return equal && graph.captured ? 0 : 1;
}

await runExample('full-iteration', main);
