/**
 * The main program of the child process that tries managed memory. The process may crash in a
 * driver, or hang until its parent kills it. It prints a line of JSON, `{trying}`, before it tries
 * a device. For each family it prints the line `{family, reason}`, with a null reason if managed
 * memory works.
 */
import { writeSync } from 'node:fs';
import { DeviceError } from '../../base/errors.ts';
import { systemProcesses } from '../../base/system-addon.ts';
import { listDevices, openDevice } from '../../device/open.ts';
import type { ProbeResult, Trying } from './probe-process.ts';

/** CUDA's status if the device is in exclusive mode and another process uses it. */
const EXCLUSIVE = 46;

systemProcesses().endWithParent(Number(process.argv[2]));
const seen = new Set<string>();
for (const { name, family, available, reason = 'no reason was given' } of listDevices()) {
  if (seen.has(family)) continue;
  seen.add(family);
  if (available) say({ trying: name });
  say({ family, reason: available ? await wrong(name) : reason });
}

/** Prints a line synchronously, because the next driver call may never return. */
function say(line: ProbeResult | Trying): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

/** Tries managed memory on a device. Returns why it does not work, or null if it works. */
async function wrong(name: string): Promise<string | null> {
  try {
    using device = openDevice(name);
    if (device.traits.noManaged) return device.traits.noManaged;
    const stream = device.currentStream;
    using tensor = device.allocateManaged({ shape: [16_384] });
    stream.fill(tensor, 7);
    stream.prefetch(tensor, device.index);
    const bad = (await tensor.toArray(stream)).findIndex((value) => value !== 7);
    return bad < 0
      ? null
      : `managed memory of ${name} lost element ${bad} of the data written to it`;
  } catch (error) {
    // In exclusive mode, the parent's CUDA context locks out this process.
    if (error instanceof DeviceError && error.status === EXCLUSIVE)
      return 'the GPU is in exclusive mode, so a second process cannot test managed memory while this one uses the GPU; run nvidia-smi -c 0';
    return (error as Error).message;
  }
}
