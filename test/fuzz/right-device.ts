/**
 * Right arguments of devices, graphs, memory, linear operators, halos and transfers. Functions that
 * are not named take no argument, or any.
 */
import { kernels } from '../../src/device/kernels.ts';
import {
  array,
  either,
  flag,
  form,
  type Gen,
  list,
  maybe,
  one,
  real,
  record,
  tuple,
  whole,
} from './values.ts';

export type Rows = Readonly<Record<string, readonly Gen[]>>;

export const device = one('w.device', 'w.device', 'w.again', 'w.host');
export const stream = one(
  'w.stream',
  'w.stream',
  'w.stream',
  'w.stream2',
  'w.device.defaultStream',
  'w.hostStream',
  'w.device.currentStream',
);
const event = one('w.event', 'w.event2', 'w.hostEvent', 'w.closedEvent');
export const tensor = one(
  'w.tensor',
  'w.matrix',
  'w.big',
  'w.ints',
  'w.bytes',
  'w.doubles',
  'w.halves',
  'w.longs',
  'w.empty',
  'w.strided',
  'w.plane',
  'w.lentTensor',
  'w.hostTensor',
  'w.closedTensor',
  'w.tensor.view({ shape: [2, 2] })',
  'w.big.view({ shape: [2, 3], offset: 4 })',
);
export const dtype = one(
  "'float32'",
  "'float64'",
  "'float16'",
  "'bfloat16'",
  "'int8'",
  "'uint8'",
  "'int16'",
  "'uint16'",
  "'int32'",
  "'uint32'",
  "'int64'",
  "'uint64'",
  "'bool'",
);
export const dims = list(whole(0, 5), 0, 3);
export const signal = one(
  'new AbortController().signal',
  'AbortSignal.abort(told)',
  'undefined',
  'undefined',
);
/** Waits are short, so that a call which waits in vain soon throws. */
export const timeout = record({ timeoutMs: whole(0, 3) });
const kernel: Gen = (random) => {
  const names = Object.keys(kernels);
  return { code: `'${names[random.below(names.length)]}'` };
};
const launched: Gen = (random) => {
  const numbers = (gen: Gen, most: number) => list(gen, 0, most);
  return record({
    tensors: list(tensor, 1, 5),
    wholes: numbers(whole(0, 6), 9),
    reals: numbers(real(-2, 2), 3),
  })(random);
};
const values = either(
  array('Float32Array', 4),
  array('Float32Array', 0, 1, 4, 6, 64),
  array('Int32Array', 4),
  array('Uint8Array', 4, 64),
  array('Float64Array', 20),
);
const struct = either(
  record({ a: either(tensor, values) }, { b: either(tensor, values), c: record({ d: tensor }) }),
  list(tensor, 0, 2),
  one('[[{ a: w.tensor }]]', "{ a: new Float32Array(4), why: 'x' }", '{ a: w.cpuTensor }'),
);
const names = either(
  one('null', 'undefined', "['a']", "['a', 'b']", '[]'),
  list(one("'a'", "'b'", "'...'"), 0, 3),
);
const operand = either(tensor, values, one('w.cpuTensor'));
const specs = list(one('w.exchange'), 1, 2);
const quantity = record(
  {
    data: one(
      ...Array.from({ length: 4 }, () => 'new Float32Array(20)'),
      'w.plane',
      'w.plane',
      'new Float32Array(19)',
      'w.doubles',
    ),
  },
  {
    shape: one('[4, 5]', '[5, 4]', '[2, 2]'),
    strides: one('[5, 1]', '[1, 4]', '[0, 0]'),
    dims: one("['i', 'j']", "['j', 'i']"),
  },
);
const quantities = either(
  one('[{ data: new Float32Array(20) }]', '[{ data: w.plane }]'),
  list(quantity, 1, 2),
);
const haloSpec = record(
  {
    nPoints: whole(0, 2),
    shape: tuple(whole(3, 5), whole(3, 5)),
    origin: one('[1, 1]', '[0, 0]', '[2, 1]'),
    extent: one('[2, 3]', '[1, 1]', '[2, 2]'),
    dims: one("['i', 'j']", "['j', 'i']"),
    dtype,
  },
  { strides: one('[5, 1]', '[1, 5]', '[7, 2]'), itemsize: one('4', '8', '1') },
);
const location = whole(-1, 1);
const module = form(
  '{ namedParameters: () => [[$, $]], namedBuffers: () => [] }',
  one("'p'"),
  tensor,
);
const backendOf = 'HostCopyReplayTransferBackend';
const index = whole(0, 2);

const backend = (name: string): Rows =>
  Object.fromEntries(
    Object.entries({
      registerHostSlots: [list(array('Uint8Array', 64, 256), 2, 2)],
      allocateDeviceSlots: [record({ shape: dims, dtype })],
      submitH2d: [
        record(
          { slot: index, dst: tensor, src: array('Uint8Array', 16, 64) },
          { metadata: one('{}'), h2dBytes: whole(0, 20), traceDeviceEvents: flag },
        ),
      ],
      submitSlot: [index, whole(0, 64)],
      clearReady: [index],
      readyQuery: [index],
      synchronizeReady: [index],
      waitCurrentStreamForReady: [index, maybe(stream)],
    }).map(([key, row]) => [`${name}.${key}`, row]),
  );

const transformer = (name: string): Rows => ({
  [`${name}.asyncPack`]: [quantities, maybe(quantities)],
  [`${name}.asyncUnpack`]: [quantities, maybe(quantities)],
});

export const deviceRows: Rows = {
  openDevice: [
    one("'host:0'", "'cpu'", "'auto'", "'cuda:0'", "'host:1'", "''", "'xpu'", 'w.device.name'),
  ],
  'new CpuTensor': [values, maybe(dims), maybe(dtype)],
  'new Tensor': [
    one('w.storage', 'w.tensor.storage', 'w.big.storage'),
    dims,
    dtype,
    maybe(whole(0, 8)),
    maybe(list(whole(0, 4), 0, 3)),
  ],
  'OpenedDevice.createStream': [record({}, { priority: whole(-9, 9) })],
  'OpenedDevice.createEvent': [record({}, { timing: flag })],
  'OpenedDevice.allocate': [record({ shape: dims }, { dtype, zeroed: flag })],
  'OpenedDevice.allocateManaged': [record({ shape: dims }, { dtype })],
  'OpenedDevice.advise': [
    tensor,
    record({}, { preferredLocation: location, accessedBy: location }),
  ],
  'OpenedDevice.residency': [tensor],
  'OpenedDevice.registerHost': [
    one(
      'new Uint8Array(new SharedArrayBuffer(64))',
      'new Float32Array(new SharedArrayBuffer(8192))',
    ),
    record({}, { pin: flag }),
  ],
  'OpenedDevice.loadKernels': [
    record(
      {
        kernels: record({
          k: record(
            { tensors: list(dtype, 1, 3) },
            { wholes: whole(0, 12), reals: whole(0, 8), writes: whole(0, 2) },
          ),
        }),
      },
      {
        name: one("'mine'"),
        images: form(
          '{ host: $, cuda: $, rocm: $, xpu: $ }',
          ...[1, 2, 3, 4].map(() => array('Uint8Array', 1, 64, 4096)),
        ),
      },
    ),
  ],
  'OpenedDevice.withStream': [stream, one('() => 1', '() => w.stream.query()')],
  'OpenedStream.record': [event, record({}, { external: flag })],
  'OpenedStream.wait': [event, record({}, { orderOnly: flag })],
  'OpenedStream.copy': [
    either(one('w.tensor', 'w.lentTensor'), tensor),
    either(one('w.tensor', 'w.ints', 'w.hostTensor'), tensor),
  ],
  'OpenedStream.fill': [tensor, either(real(-2, 300), one('1n', '0', 'NaN'))],
  'OpenedStream.launch': [kernel, launched],
  'OpenedStream.replay': [one('w.exec')],
  'OpenedStream.prefetch': [tensor, location],
  'OpenedStream.synchronize': [record({}, { signal })],
  'OpenedEvent.elapsedMs': [event],
  'OpenedEvent.done': [record({}, { signal })],
  'Tensor.view': [
    record({ shape: dims }, { offset: whole(0, 6), strides: list(whole(0, 4), 0, 3), dtype }),
  ],
  'Tensor.write': [values, maybe(stream)],
  'Tensor.toArray': [maybe(stream)],
  'RegisteredHost.tensor': [record({ shape: dims, dtype }, { byteOffset: whole(0, 16) })],
  'RegisteredHost.read': [whole(0, 16), whole(0, 64), stream],
  'RegisteredHost.write': [whole(0, 16), array('Uint8Array', 4, 64), stream],
  'MemoryStorage.read': [whole(0, 16), whole(0, 16), stream],
  'MemoryStorage.write': [whole(0, 16), array('Uint8Array', 4, 16), stream],
  'ReadyGraph.update': [one('w.captured')],
  'new DeviceGenerator': [device, record({}, { seed: either(whole(0, 9), one('7n')) })],
  'DeviceGenerator.uniform': [stream, tensor, record({}, { low: real(-2, 0), high: real(0, 2) })],
  'DeviceGenerator.normal': [
    stream,
    tensor,
    record({}, { mean: real(-2, 0), deviation: real(0, 2) }),
  ],
  'DeviceGenerator.state': [maybe(stream)],
  'DeviceGenerator.restore': [
    record({ seed: one('1n', '2n ** 63n'), offset: one('0n', '4n') }),
    maybe(stream),
  ],
  'new FullGraphWrapper': [
    one('() => null', '() => ({ a: w.tensor })'),
    record(
      {},
      { device, warmupSteps: whole(0, 3), useSingleMempool: flag, maxGraphs: whole(1, 3) },
    ),
  ],
  'FullGraphWrapper.run': [
    record({
      model: one('{}', 'w.mlp'),
      dataIterator: one(
        'null',
        '[{ a: w.tensor }].values()',
        '[{ a: new Float32Array(4) }].values()',
      ),
      numMicrobatches: whole(1, 2),
      seqLength: whole(1, 3),
      forwardOnly: flag,
    }),
  ],
  'FullGraphWrapper.currIter': [one("'training'", "'validation'")],
  'FullGraphWrapper.nextIter': [one("'training'", "'validation'")],
  'FullGraphWrapper.resetGraph': [maybe(one("'training'", "'validation'"))],
  'new StaticBufferLoader': [device],
  'StaticBufferLoader.load': [struct, one("'training'", "'validation'"), whole(0, 2)],
  'GraphPool.allocate': [record({ shape: dims }, { dtype })],
  cloneTensorsInStruct: [struct, struct, maybe(stream)],
  copyTensorsInStruct: [struct, device, maybe(stream)],
  getGraphPool: [device, flag],
  getSharedCaptureStream: [device],
  getSharedGraphPool: [device],
  adviseManagedModuleParametersPreferredLocation: [
    module,
    record({ device: location }, { includeBuffers: flag }),
  ],
  prefetchManagedModuleParameters: [
    module,
    record({ device: location }, { includeBuffers: flag, stream }),
  ],
  adviseManagedTensorAccessedBy: [tensor, record({ device: location })],
  adviseManagedTensorPreferredLocation: [tensor, record({ device: location })],
  prefetchManagedTensor: [tensor, record({ device: location }, { stream })],
  compileAllocator: [record({ timeoutMs: whole(1, 9) }, { signal })],
  createUnifiedMempool: [either(device, one("'host:0'"))],
  'UnifiedMempool.allocate': [record({ shape: dims }, { dtype })],
  'new Chain': [one('w.identity', 'w.toDevice'), one('w.identity', 'w.toHost')],
  'new DeviceSpec': [
    either(device, one("'cpu'", "'host:0'", 'null')),
    maybe(stream),
    maybe(stream),
  ],
  'DeviceSpec.getTransferStream': [
    either(device, one('w.spec', 'w.cpuSpec')),
    either(device, one('w.spec')),
  ],
  'DeviceSpec.p2pSetup': [either(device, one('w.spec', 'w.cpuSpec'))],
  'new Identity': [names, one('w.spec', 'undefined')],
  'new ToDevice': [
    either(device, one("'cpu'", 'w.spec', 'w.cpuSpec')),
    either(device, one("'cpu'", 'w.spec', 'w.cpuSpec')),
    maybe(names),
  ],
  'ToDevice.forward': [operand, record({}, { startEvent: event })],
  'ToDevice.forwardSync': [operand, record({}, { startEvent: event })],
  'ToDevice.normal': [maybe(one('w.identity'))],
  'ToDevice.split': [record({}, { a: record({ start: whole(0, 2), stop: whole(0, 3) }) })],
  'Identity.forward': [operand],
  'Identity.normal': [maybe(one('w.identity', 'w.toDevice'))],
  'new QuantityHaloSpec': [haloSpec],
  'new HaloExchangeSpec': [
    record({
      specification: one('w.specification'),
      packSlices: tuple(tuple(whole(0, 2), whole(0, 4)), tuple(whole(0, 2), whole(0, 5))),
      packClockwiseRotation: whole(-4, 4),
      unpackSlices: tuple(tuple(whole(0, 2), whole(0, 4)), tuple(whole(0, 2), whole(0, 5))),
    }),
  ],
  'HaloDataTransformer.get': [either(device, one("'cpu'")), specs, maybe(specs)],
  'new HaloDataTransformerDevice': [device, specs, maybe(specs)],
  'new HaloDataTransformerHost': [specs, maybe(specs)],
  ...transformer('HaloDataTransformerHost'),
  ...transformer('HaloDataTransformerDevice'),
  'HaloDataTransformerHost.packInto': [array('Float32Array', 5, 10), quantities, maybe(quantities)],
  'HaloDataTransformerHost.unpackFrom': [
    array('Float32Array', 5, 10),
    quantities,
    maybe(quantities),
  ],
  edgeSlices: [
    one('w.specification'),
    one("'N'", "'SW'", "'E'"),
    record({ interior: flag }, { points: whole(0, 2) }),
  ],
  periodicTopology: [
    record(
      { layout: either(tuple(whole(1, 3), whole(1, 3)), tuple(whole(1, 3))) },
      { corners: flag },
    ),
  ],
  cubedSphereTopology: [record({}, { layout: tuple(whole(1, 2), whole(1, 2)), corners: flag })],
  shareHaloExchange: [
    record(
      { topology: one('w.topology'), x: list(haloSpec, 1, 2) },
      { y: list(haloSpec, 1, 2), points: whole(1, 2) },
    ),
  ],
  failHaloExchange: [
    one(
      'halo.shareHaloExchange({ topology: w.topology, x: w.sharedExchange.x })',
      'w.sharedExchange',
    ),
    one('told'),
  ],
  'new HaloUpdater': [
    one(
      'halo.shareHaloExchange({ topology: w.topology, x: w.sharedExchange.x })',
      'w.sharedExchange',
    ),
    whole(0, 1),
    record({}, { device: either(device, one("'cpu'")) }),
  ],
  'HaloUpdater.start': [quantities, maybe(quantities)],
  'HaloUpdater.wait': [record({ timeoutMs: whole(0, 3) }, { signal })],
  'HaloUpdater.waitSync': [timeout],
  'HaloUpdater.update': [quantities, maybe(quantities), timeout],
  'HaloUpdater.updateSync': [quantities, maybe(quantities), timeout],
  'HaloUpdater.fail': [one('told', "'x'")],
  buildReplayTransferBackend: [
    record(
      { device: one("'host:0'", "'cpu'", "'cuda:0'", 'w.device.name'), ringDepth: whole(1, 4) },
      { transfer: one("'immediate'", "'deferred'", "'direct'", "'auto'"), timed: flag },
    ),
  ],
  'new CudaLikeReplayTransferBackend': [
    device,
    record({ ringDepth: whole(1, 4) }, { timed: flag }),
  ],
  'new HostCopyReplayTransferBackend': [
    device,
    record({ ringDepth: whole(1, 4) }, { timed: flag }),
  ],
  'new XpuReplayTransferBackend': [device, record({ ringDepth: whole(1, 4) }, { timed: flag })],
  ...backend(backendOf),
  ...backend('CudaLikeReplayTransferBackend'),
  ...backend('XpuReplayTransferBackend'),
};
