/**
 * The child process that finds out whether managed memory works here. It may crash in a driver, or
 * hang and be killed. It prints one line of JSON per family, `{family, reason}`, with a null reason
 * if all succeeded, and `{trying}` before a device is tried.
 */
import { writeSync } from 'node:fs';
import { DeviceError } from '../../base/errors.ts';
import { systemProcesses } from '../../base/system-addon.ts';
import { listDevices, openDevice } from '../../device/open.ts';
import type { ProbeResult, Trying } from './probe-process.ts';

/** CUDA status: another process has the device, which is in exclusive mode. */
const EXCLUSIVE = 46;

systemProcesses().endWithParent(Number(process.argv[2]));
const seen = new Set<string>();
for (const { name, family, available, reason = 'no reason was given' } of listDevices()) {
  if (seen.has(family)) continue;
  seen.add(family);
  if (available) say({ trying: name });
  say({ family, reason: available ? await wrong(name) : reason });
}

/** Writes synchronously, because the next call may never return. */
function say(line: ProbeResult | Trying): void {
  writeSync(1, `${JSON.stringify(line)}\n`);
}

/** Returns what does not work with managed memory on the device, or null if all does. */
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
    // The parent's own context excludes every other process.
    if (error instanceof DeviceError && error.status === EXCLUSIVE)
      return 'the GPU is in exclusive mode, so a second process cannot test managed memory while this one uses the GPU; run nvidia-smi -c 0';
    return (error as Error).message;
  }
}
