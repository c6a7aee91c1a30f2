/**
 * Measures what one call of the driver costs the calling thread: replays, launches, events.
 * Compares calls from JavaScript with the same calls from C++.
 */
import { openDevice } from '../src/index.ts';
import { type Benchmark, beside, inTurn, middle } from './harness.ts';
import { type RawCalls, rawCalls } from './native.ts';

/**
 * Limits of a burst: its calls, and the kernels that they launch. A GPU's queue holds about a
 * thousand, so the caller never waits for a free entry.
 */
const MAX_CALLS = 200;
const MAX_NODES = 500;
const burst = (nodes: number) => Math.min(MAX_CALLS, MAX_NODES / nodes);

export const run: Benchmark = async (report, { device: name, quick }) => {
  const device = openDevice(name);
  const stream = device.createStream();
  using x = device.allocate({ shape: [1] });
  using y = device.allocate({ shape: [1] });
  const launch = () => stream.launch('axpby', { tensors: [y, x], wholes: [1], reals: [1, 1] });
  const capture = (nodes: number) => {
    stream.beginCapture();
    for (let i = 0; i < nodes; i++) launch();
    using graph = stream.endCapture();
    return graph.instantiate();
  };
  using one = capture(1);
  using hundred = capture(100);
  using plain = device.createEvent();
  using timed = device.createEvent({ timing: true });
  const calls: readonly [
    label: string,
    raw: keyof RawCalls,
    call: () => unknown,
    atOnce?: number,
  ][] = [
    ['replay of 1 node', 'replay1', () => stream.replay(one)],
    [
      `replay of 100 nodes, ${burst(100)} at once`,
      'replay100',
      () => stream.replay(hundred),
      burst(100),
    ],
    ['launch of one kernel', 'launch', launch],
    ['record of an event', 'record', () => stream.record(plain)],
    ['poll of an event that is done', 'query', () => plain.query()],
    ['record of an event that times', 'recordTiming', () => stream.record(timed)],
    ['poll of an event that times', 'queryTiming', () => timed.query()],
  ];
  const rounds = quick ? 20 : 200;
  const ours = Object.fromEntries(calls.map(([, raw]) => [raw, []])) as unknown as Record<
    keyof RawCalls,
    number[]
  >;
  const theirs = structuredClone(ours);
  for (let repeat = 0; repeat < 3; repeat++) {
    if (device.family === 'cuda') {
      const bare = rawCalls(device.name, rounds);
      for (const [, raw] of calls) theirs[raw].push(bare[raw]);
    }
    for (const [, raw, call, atOnce = burst(1)] of calls) {
      const { times } = await inTurn(rounds, { times: call }, () => stream.synchronize(), atOnce);
      ours[raw].push(...times.caller);
    }
  }
  for (const [label, raw] of calls) {
    const figure = { metric: 'time in the caller', unit: 'µs' };
    if (theirs[raw].length === 0) report({ case: label, ...figure, ...middle(ours[raw]) });
    else
      report({
        case: `${label}; the driver's call in C++`,
        ...figure,
        ...beside(ours[raw], theirs[raw]),
      });
  }
  stream.close();
};
