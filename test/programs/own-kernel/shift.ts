/** The kernel of this example, on the device and in plain JavaScript. */
import type { Device, LoadedKernel, Stream, Tensor } from '../../../src/index.ts';

export interface Frames {
  rows: number;
  channels: number;
  size: number;
  /** the most pixels by which an image is shifted */
  pad: number;
}

/** Maps bytes to [0, 1]. */
const SCALE = 1 / 255;

/** Loads the source, compiled for the device if possible: docs/how-to/custom-kernel.md. */
export async function loadShift(device: Device): Promise<LoadedKernel> {
  const { random_shift } = await device.loadKernels({
    name: 'random shifts',
    source: new URL('../../../../test/programs/own-kernel/random_shift.gk', import.meta.url),
    kernels: {
      random_shift: {
        tensors: ['float32', 'uint8', 'float32'],
        wholes: 5,
        reals: 1,
        writes: 1,
        need: ({ wholes: [rows = 0, channels = 0, height = 0, width = 0] }) => {
          const count = rows * channels * height * width;
          return [4 * count, count, 8 * rows];
        },
      },
    },
  });
  return random_shift;
}

/**
 * Enqueues the kernel. `frames` is uint8 [rows, channels, size, size], `draws` is float32 [rows,
 * 2], and `out` is float32 of the shape of `frames`.
 */
export function shift(
  stream: Stream,
  kernel: LoadedKernel,
  out: Tensor<'float32'>,
  frames: Tensor<'uint8'>,
  draws: Tensor<'float32'>,
  { rows, channels, size, pad }: Frames,
): void {
  stream.launch(kernel, {
    tensors: [out, frames, draws],
    wholes: [rows, channels, size, size, pad],
    reals: [SCALE],
  });
}

/** Computes the same values on the CPU, rounded as the kernel rounds. */
export function shiftHere(
  frames: Uint8Array,
  draws: Float32Array,
  { rows, channels, size, pad }: Frames,
): Float32Array {
  const out = new Float32Array(frames.length);
  const moved = (at: number, draw: number) => {
    const to = at + Math.trunc(Math.fround(draw * (2 * pad + 1))) - pad;
    return Math.min(Math.max(to, 0), size - 1);
  };
  for (let row = 0, i = 0; row < rows; row++)
    for (let plane = 0; plane < channels; plane++)
      for (let y = 0; y < size; y++)
        for (let x = 0; x < size; x++, i++) {
          const line = (row * channels + plane) * size + moved(y, draws[2 * row] as number);
          out[i] =
            Math.fround(SCALE) *
            (frames[line * size + moved(x, draws[2 * row + 1] as number)] as number);
        }
  return out;
}
