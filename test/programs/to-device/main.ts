/**
 * A pipeline over two devices. Batches enter on the first device. The second device computes on a
 * batch while the next batch is copied to it.
 */
import { writeFileSync } from 'node:fs';
import {
  checkWritable,
  commandLine,
  deviceNamed,
  flag,
  runExample,
  terminalColumns,
  text,
  toFile,
  UsageError,
  whole,
  wrapped,
} from '../../../examples/command-line.ts';
import { ToDevice } from '../../../src/entries/linop.ts';
import {
  CpuTensor,
  type Device,
  type DeviceEvent,
  type Stream,
  type Tensor,
} from '../../../src/index.ts';
import { drawSvg, drawText, type Row, type Span } from './timeline.ts';

const { help, parse: parseCommandLine } = commandLine({
  intro: `Copies batches from one device to another while that one computes on earlier batches, and draws the times.`,
  usage: 'node dist/test/programs/to-device/main.js [options]',
  options: {
    devices: text(
      'A,B',
      'two devices',
      'source and target of the batches: two devices of one family',
      {
        default: 'host:0,host:1',
      },
    ),
    batches: whole('number of batches, 1 to 1000', { min: 1, max: 1000, default: 8 }),
    svg: text('FILE', 'a file', 'also write the picture'),
    json: flag('one JSON object instead of text'),
  },
  after:
    'exit code: 0 it ran, 1 it failed, or FILE cannot be written, 2 wrong usage, or an unknown or unavailable device',
});

const SIDE = 2048; // A batch has 2048 × 2048 floats, 16 MiB.
const COLUMNS = 16;

/** Opens two different devices of one family. The caller closes them. */
function pairOf(typed: string): [from: Device, to: Device] {
  const [first, second, ...more] = typed.split(',');
  if (!first || !second || more.length > 0)
    throw new UsageError(`--devices takes two names, got '${typed}'`);
  const [from, to] = [deviceNamed(first), deviceNamed(second)];
  if (from.family === to.family && from.name !== to.name) return [from, to];
  const names = `${from.name},${to.name}` === typed ? '' : ` (${from.name} and ${to.name})`;
  throw new UsageError(
    `--devices takes two different devices of one family, got '${typed}'${names}`,
  );
}

const recorded = (stream: Stream): DeviceEvent => {
  const event = stream.device.createEvent({ timing: true });
  stream.record(event);
  return event;
};

/**
 * Runs the pipeline twice and returns the spans of the second run. The first run warms up memory
 * and threads.
 */
async function measure(from: Device, to: Device, batches: number): Promise<Row[]> {
  using enter = new ToDevice('cpu', from, ['row', 'column']);
  using move = new ToDevice(from, to, ['row', 'column']);
  const transfer = move.ispec.transferStream as Stream;
  const target = to.currentStream;
  using weights = to.allocate({ shape: [SIDE, COLUMNS] });
  using product = to.allocate({ shape: [SIDE, COLUMNS] });
  const values = new Float32Array(SIDE * SIDE);
  const inputs = Array.from(
    { length: batches },
    // `values` may be overwritten when forward() has returned.
    (_, batch) => enter.forward(new CpuTensor(values.fill(batch), [SIDE, SIDE])) as Tensor,
  );

  async function pipeline(): Promise<Row[]> {
    using start = recorded(transfer);
    const copies: DeviceEvent[][] = [];
    const computed: DeviceEvent[][] = [];
    for (const input of inputs) {
      using ready = recorded(from.currentStream);
      transfer.wait(ready);
      // At most two batches are on the target: one in use, and one being copied.
      const before = computed.at(-2)?.[1];
      if (before) transfer.wait(before);
      const copying = recorded(transfer);
      // forward() returns at once, and the target's stream waits for the copy.
      using batch = move.forward(input, { startEvent: ready }) as Tensor;
      copies.push([copying, recorded(transfer)]);
      const computing = recorded(target);
      const wholes = [0, 0, SIDE, COLUMNS, SIDE, SIDE, COLUMNS, COLUMNS] as const;
      target.launch('gemm', { tensors: [product, batch, weights], wholes, reals: [1, 0] });
      computed.push([computing, recorded(target)]);
    } // `batch` is closed here. Its memory is freed after its work.
    await Promise.all([transfer.synchronize(), target.synchronize()]);
    const between = (pairs: DeviceEvent[][], zero: DeviceEvent, at: number): Span[] =>
      pairs.map(([a, b], batch) => ({
        batch,
        from: at + a!.elapsedMs(zero),
        to: at + b!.elapsedMs(zero),
      }));
    const copy = between(copies, start, 0);
    // Each device has its own clock. The clock of the second device is shifted so that no batch is
    // used before it has arrived.
    const first = computed[0]![0]!;
    const early = between(computed, first, 0).map(({ batch, from }) => copy[batch]!.to - from);
    const compute = between(computed, first, Math.max(...early));
    for (const event of [...copies, ...computed].flat()) event.close();
    return [
      { name: `copy ${from.name} → ${to.name}`, spans: copy },
      { name: `compute ${to.name}`, spans: compute },
    ];
  }

  await pipeline();
  const rows = await pipeline();
  for (const each of inputs) each.close();
  return rows;
}

async function main({
  devices,
  batches,
  svg,
  json,
}: NonNullable<ReturnType<typeof parseCommandLine>>): Promise<number> {
  const [from, to] = pairOf(devices);
  checkWritable('svg', svg);
  const rows = await measure(from, to, batches);
  const [copies, computed] = rows as [Row, Row];
  /** milliseconds of copies during which the target computed */
  let hidden = 0;
  let copied = 0;
  for (const copy of copies.spans) {
    copied += copy.to - copy.from;
    for (const each of computed.spans)
      hidden += Math.max(0, Math.min(copy.to, each.to) - Math.max(copy.from, each.from));
  }
  if (svg !== undefined) toFile('svg', svg, (file) => writeFileSync(file, drawSvg(rows)));
  if (json) {
    console.log(
      JSON.stringify({
        from: from.name,
        to: to.name,
        batches,
        rows,
        copiedMs: copied,
        hiddenMs: hidden,
      }),
    );
  } else {
    console.log(drawText(rows, terminalColumns()));
    const part = `${((100 * hidden) / copied).toFixed(0)} % of that while ${to.name} computed`;
    console.log(
      wrapped(`\n${batches} batches of 16 MiB: copied in ${copied.toFixed(1)} ms, ${part}`),
    );
    if (svg !== undefined) console.log(`drawn in ${svg}`);
  }
  return 0;
}

await runExample({ name: 'to-device', help, parse: parseCommandLine, main });
