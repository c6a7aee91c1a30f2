/**
 * Runs one probe of a device's memory in a software driver's environment, and prints one JSON
 * object. The memory is nearly full, or the driver refuses to free.
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
/**
 * Bytes of host memory that the driver allocated. If the driver reports only one sum, bytes of all
 * memory.
 */
const ownBytes = () => live().host_allocation_bytes ?? live().bytes ?? 0;

/** Lets the device return memory that was closed before. */
const settle = () => {
  device.memoryInfo();
  device.createEvent().close();
  return new Promise(setImmediate);
};

const probes: Record<string, () => unknown> = {
  /**
   * measures the host memory that the driver allocates for a write, minus the bytes of the write
   */
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

  /** needs 6 of 8 MiB, while the cache has 4 MiB and a closed MiB is still in use */
  reclaimed: async () => {
    using latch = new Latch(device);
    using stream = device.createStream();
    bytes(4).close();
    await device.currentStream.synchronize();
    device.memoryInfo();
    const used = bytes(1);
    // CUDA and HIP free nothing until all work is done, so their work must end.
    if (device.family === 'xpu') latch.hold(stream);
    else stream.launch('spin', { wholes: [200_000] });
    stream.fill(used, 1);
    used.close();
    const before = counts(driver.calls()).cuEventRecord ?? 0;
    bytes(6).close();
    // CUDA and HIP had to wait for all work.
    const held = device.family !== 'xpu' || !stream.query();
    // Checks for running work must not enqueue event records, which would fill the queue.
    return { held, records: (counts(driver.calls()).cuEventRecord ?? 0) - before };
  },

  /** closes memory that the driver refuses to free: once, then until `fail(null)` */
  refused: async () => {
    const call = process.argv[3] as string;
    const settled = async () => {
      await settle();
      return live().allocations ?? 0;
    };
    const before = await settled();
    const refuse = async (spec: string) => {
      driver.fail(spec);
      // Uses managed memory, because the device does not cache it.
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
