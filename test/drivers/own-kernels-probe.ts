/**
 * Loads, captures and launches a program's kernels, each time with one failing driver call. Each
 * round opens a device and closes it, and prints a JSON line on stdout. It runs in a software
 * driver's environment with two devices. The arguments are the path of the image and the name of
 * the kernel.
 */
import { readFileSync } from 'node:fs';
import { DeviceError, openDevice } from '../../src/index.ts';
import { openHandles } from '../rig/handles.ts';
import { TESTED } from '../rig/tested-device.ts';
import { counts, settle, software } from './talk.ts';

const [path, name] = process.argv.slice(2) as [string, string];
const driver = await software();
const family = TESTED.split(':')[0] as 'cuda' | 'rocm' | 'xpu';
const warnings: string[] = [];
process.on('warning', ({ message }) => warnings.push(message));

async function once(): Promise<number[]> {
  using device = openDevice(`${family}:1`);
  const image = readFileSync(path);
  const declared = { tensors: ['float32', 'float32'], wholes: 1, reals: 1 } as const;
  const kernels = await device.loadKernels({
    images: { [family]: image },
    kernels: { [name]: declared },
  });
  using stream = device.createStream();
  using y = device.allocate({ shape: [2] }).write(Float32Array.of(1, 2));
  using x = device.allocate({ shape: [2] }).write(Float32Array.of(3, 4));
  await device.currentStream.synchronize();
  const args = { tensors: [y, x], wholes: [2], reals: [2] };
  stream.launch(kernels[name]!, args);
  stream.beginCapture();
  try {
    stream.launch(kernels[name]!, args);
  } catch (error) {
    try {
      stream.endCapture().close();
    } catch {
      // The first error has broken the capture.
    }
    throw error;
  }
  using graph = stream.endCapture();
  using exec = graph.instantiate();
  stream.replay(exec);
  return [...(await y.toArray(stream))];
}

const living = () => {
  settle();
  const { modules = 0, kernels = 0 } = counts(driver.live());
  return { modules, kernels, handles: openHandles().kernels };
};

for (let i = 0; i < 2; i++) await once();
const before = living();
const made = counts(driver.calls());
const right = await once();
const calls = Object.entries(counts(driver.calls())).filter(
  ([call, count]) => count > (made[call] ?? 0),
);
process.stdout.write(`${JSON.stringify({ right, calls: calls.length, before })}\n`);
for (const [call] of calls) {
  warnings.length = 0;
  let named: string | null = null;
  let text: string | null = null;
  driver.fail(`${call}:1:999`);
  try {
    await once();
  } catch (error) {
    for (let at = error; at instanceof Error; at = at.cause)
      if (at instanceof DeviceError) named = at.call;
    text = (error as Error).message;
  }
  driver.fail(null);
  const again = await once();
  await new Promise(setImmediate);
  process.stdout.write(
    `${JSON.stringify({ call, named, text, warned: warnings, again, after: living() })}\n`,
  );
}
