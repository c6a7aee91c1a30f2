/**
 * What the memory of one device does in a tight place; prints one JSON object. Run in a software
 * driver's environment.
 */
import { openDevice } from '../../src/index.ts';
import { Latch } from '../rig/latch.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, software } from './talk.ts';

const MIB = 2 ** 20;
const driver = await software();
const device = openDevice(TESTED);
const warnings: string[] = [];
process.on('warning', ({ message }) => warnings.push(message));
const bytes = (mib: number) =>
  device.allocate({ shape: [mib * MIB], dtype: 'uint8', zeroed: false });
const live = () => counts(driver.live());
/** Host memory of the driver's own; where the driver tells but the sum, all memory. */
const ownBytes = () => live().host_allocation_bytes ?? live().bytes ?? 0;

/** What was let go so far is given back. */
const settle = () => {
  device.memoryInfo();
  device.createEvent().close();
  return new Promise(setImmediate);
};

const probes: Record<string, () => unknown> = {
  /** how much more host memory the driver is asked for than a write of so many MiB has */
  staging: async () => {
    const excess: number[] = [];
    for (const mib of [3, 33, 65]) {
      using tensor = bytes(mib);
      using latch = new Latch(device);
      await settle();
      const before = ownBytes();
      latch.hold(device.currentStream);
      tensor.write(new Uint8Array(mib * MIB));
      excess.push(ownBytes() - before - mib * MIB);
      latch.open();
      await device.currentStream.synchronize();
    }
    return excess;
  },

  /** 8 MiB in all: 4 are kept for later, 1 was let go and is still in use, 6 are asked for */
  reclaimed: async () => {
    using latch = new Latch(device);
    using stream = device.createStream();
    bytes(4).close();
    await device.currentStream.synchronize();
    device.memoryInfo();
    const used = bytes(1);
    // CUDA and HIP take nothing back before all work is done: there it has an end.
    if (device.family === 'xpu') latch.hold(stream);
    else stream.launch('spin', { wholes: [200_000] });
    stream.fill(used, 1);
    used.close();
    const before = counts(driver.calls()).cuEventRecord ?? 0;
    bytes(6).close();
    // CUDA and HIP had to wait for all of it.
    const held = device.family !== 'xpu' || !stream.query();
    // Looking whether something runs enqueues nothing: it would fill the queue.
    return { held, records: (counts(driver.calls()).cuEventRecord ?? 0) - before };
  },

  /** memory that the driver refuses to take back once, and until it is asked to fail no more */
  refused: async () => {
    const call = process.argv[3] as string;
    const settled = async () => {
      await settle();
      return live().allocations ?? 0;
    };
    const before = await settled();
    const refuse = async (spec: string) => {
      driver.fail(spec);
      // What is managed is not kept for later.
      device.allocateManaged({ shape: [4] }).close();
      const left = (await settled()) - before;
      await settled();
      return { left, told: warnings.splice(0).filter((text) => text.includes(call)).length };
    };
    const once = await refuse(`${call}:1:999`);
    const forever = await refuse(`${call}:1:999:forever`);
    driver.fail(null);
    return { once, forever, after: (await settled()) - before };
  },
};

process.stdout.write(`${JSON.stringify(await probes[process.argv[2] as string]?.())}\n`);
