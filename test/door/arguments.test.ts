/**
 * Whatever is passed to whatever is public: an answer, or an error with a code of ours. Nothing says "Cannot read properties of
 * undefined", and nothing crashes.
 */
import { inspect } from 'node:util';
import { expect } from 'chai';
import * as files from '../../src/formats/index.ts';
import * as graph from '../../src/graph/index.ts';
import * as halo from '../../src/halo/index.ts';
import * as main from '../../src/index.ts';
import * as learner from '../../src/learner/index.ts';
import * as linop from '../../src/linop/index.ts';
import * as memory from '../../src/memory/index.ts';
import * as monitor from '../../src/monitor/index.ts';
import * as transfer from '../../src/transfer/index.ts';
import { setting } from '../rig/setting.ts';

const { openDevice, Random } = main;
const rounds = setting({ short: 60, all: 400, long: 10_000 });

type Callable = (...args: unknown[]) => unknown;
const isClass = (value: unknown): value is new (...args: unknown[]) => object =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

/** Anything but what is wanted. */
const junk: readonly unknown[] = [
  ...[undefined, null, true, 0, -1, 1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2n, '', 'x', Symbol('s')],
  ...[{}, [], [1], ['x'], { shape: [1] }, { shape: 'x' }, { nope: 1 }, () => {}, new Float32Array(2), new Map()],
];

/** For classes that inherit; made by another package; waiting for somebody. */
const leftOut =
  /^(constructor|own|making|checkOpen|keep|on|once|off|addListener|removeListener|removeAllListeners|emit|eventNames|listeners|listenerCount|run)$/;
const closing = /^(close|closeSync|finalize)$/;

/** Methods and setters of an object, its class's and those above, up to Object. */
function methodsOf(object: object): string[] {
  const names = new Set<string>();
  const ends: unknown[] = [null, Object.prototype, Function.prototype, Error];
  for (let at = object; !ends.includes(at); at = Object.getPrototypeOf(at) as object)
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at)))
      if (typeof value === 'function' && !leftOut.test(name) && !closing.test(name) && !isClass(value)) names.add(name);
  return [...names];
}

const wrong: string[] = [];

async function call(what: string, fn: Callable): Promise<void> {
  const told = (error: unknown) => {
    const { code, message } = error as { code?: unknown; message?: unknown };
    if (!(error instanceof Error) || typeof code !== 'string' || !code.startsWith('ERR_HOTSLOT_'))
      wrong.push(`${what}: ${String(message ?? String(error)).split('\n')[0]}`);
  };
  try {
    const answer = fn();
    if (typeof (answer as { then?: unknown } | null)?.then !== 'function') return tidy(answer);
    const late = new Promise((resolve) => setTimeout(resolve, 500, null).unref());
    tidy(await Promise.race([Promise.resolve(answer).catch(told), late]));
  } catch (error) {
    told(error);
  }
}

/** What a call made by chance is closed again. */
function tidy(answer: unknown): void {
  const made = answer as { close?: unknown; owner?: unknown } | null;
  if (typeof made === 'object' && typeof made?.close === 'function' && !kept.has(made))
    void Promise.resolve(made)
      .then((each) => (each.close as () => unknown)())
      .catch(() => {});
}
const kept = new Set<unknown>();

const shownAll = (args: readonly unknown[]) =>
  args.map((arg) => inspect(arg, { depth: 0, breakLength: Number.POSITIVE_INFINITY }).slice(0, 60)).join(', ');

/** Without those that write files: any path will do for them, such as one in this folder. */
const formats = Object.fromEntries(Object.entries(files).filter(([name]) => !name.startsWith('write')));

describe('the door: arguments (test:all: more of them)', function () {
  this.timeout(600_000);
  const random = new Random(7);
  /** junk, and what was made: of the right kind for somebody else */
  const pool = [...junk];
  const pick = () => pool[random.below(pool.length)];
  const argumentLists = (): unknown[][] => [
    [],
    ...junk.map((each) => [each]),
    ...Array.from({ length: rounds }, () => Array.from({ length: 1 + random.below(3) }, pick)),
  ];

  const expectNone = () => {
    const each = new Map<string, string>();
    for (const line of wrong.splice(0)) {
      const [name = '', text = ''] = [line.slice(0, line.indexOf('(')), line];
      if (!each.has(name)) each.set(name, text);
    }
    expect([...each.values()]).to.deep.equal([]);
  };

  for (const [door, exported] of Object.entries({
    main,
    learner,
    graph,
    memory,
    linop,
    halo,
    transfer,
    monitor,
    formats,
  }))
    it(`of what ${door === 'main' ? 'hotslot' : `hotslot/${door}`} exports`, async () => {
      for (const [name, value] of Object.entries(exported)) {
        if (typeof value !== 'function') continue;
        for (const args of argumentLists()) {
          const what = `${name}(${shownAll(args)})`;
          if (isClass(value)) await call(`new ${what}`, () => new value(...args));
          else await call(what, () => (value as Callable)(...args));
        }
        if (!isClass(value)) continue;
        for (const method of methodsOf(value).filter((each) => !['length', 'name', 'prototype'].includes(each)))
          for (const args of argumentLists())
            await call(`${name}.${method}(${shownAll(args)})`, () =>
              (value as unknown as Record<string, Callable>)[method]!(...args),
            );
      }
      expectNone();
    });

  it('of the methods of what is made', async () => {
    using device = openDevice('host:0');
    const stream = device.createStream();
    const tensor = device.allocate({ shape: [4] });
    const captured = () => {
      stream.beginCapture();
      stream.fill(tensor, 1);
      return stream.endCapture();
    };
    const made = captured();
    const buffer = main.ReplayBuffer.offPolicy({ capacity: 8, obsDim: 1, actionDim: 1 });
    const mlp = new learner.Mlp({ sizes: [1, 2] });
    const objects: Record<string, object> = {
      device,
      stream,
      tensor,
      event: device.createEvent({ timing: true }),
      graph: made,
      exec: made.instantiate(),
      host: device.registerHost(new Uint8Array(new SharedArrayBuffer(64)), { pin: false }),
      cpuTensor: new main.CpuTensor(new Float32Array(4)),
      buffer,
      limiter: main.RateLimiter.create({ samplesPerInsert: 1, minSize: 1, errorBuffer: 9 }),
      mailbox: main.WeightMailbox.create({ length: 4 }),
      random: new Random(1),
      pipeline: await main.ReplayPipeline.open({ buffer, device: 'host:0', sampleCount: 2, placement: 'inline' }),
      adam: new learner.Adam(device, tensor),
      mlp,
      policy: new learner.MlpPolicy({ sizes: [1, 2] }),
      workspace: mlp.workspace(device, 2, { backward: true }),
      dqn: new learner.DqnLearner(device, { obsDim: 1, actions: 2, hidden: [2], batchSize: 2 }),
      generator: new graph.DeviceGenerator(device),
      wrapper: new graph.FullGraphWrapper(() => null, { device }),
      loader: new graph.StaticBufferLoader(device),
      pool: graph.getGraphPool(device, false),
      mempool: memory.createUnifiedMempool('host:0'),
      spec: new linop.DeviceSpec('host:0'),
      toDevice: new linop.ToDevice('cpu', 'host:0'),
      backend: transfer.buildReplayTransferBackend({ device: 'cpu', ringDepth: 2 }),
    };
    for (const each of Object.values(objects)) kept.add(each);
    pool.push(...Object.values(objects), 'float32', 'copy', 'axpby', { shape: [2] }, { signal: null });
    kept.add(device.currentStream).add(device.defaultStream);
    for (const [name, object] of Object.entries(objects))
      for (const method of methodsOf(object))
        for (const args of argumentLists())
          await call(`${name}.${method}(${shownAll(args)})`, () =>
            (object as Record<string, Callable>)[method]!(...args),
          );
    for (const object of Object.values(objects).reverse()) await (object as { close?(): unknown }).close?.();
    expectNone();
  });
});
