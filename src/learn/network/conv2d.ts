/**
 * Convolutions on images. A kernel copies the patches of all images into the columns of one matrix.
 * One matrix product then computes all filters at all positions.
 */
import { checkCount, checkKeys, describeValue } from '../../base/checks.ts';
import { rangeError, typeError } from '../../base/errors.ts';
import type { Tensor } from '../../device/device.ts';
import { type Activation, activations } from '../activation.ts';
import { rowStride } from '../checks.ts';
import { ops } from '../ops/index.ts';
import { activate } from './host.ts';
import { ofKind, type Conv2dSizes as Sizes } from './kinds.ts';
import { type Layer, relu, tanh } from './layers.ts';

type Floats = Tensor<'float32'>;

/**
 * Shape of an image. A row of a layer contains the image in this order of dimensions, as in torch's
 * NCHW.
 */
export type ImageShape = readonly [channels: number, height: number, width: number];

export interface Conv2dOptions {
  /** height and width of the kernel in pixels: one number for both, or two */
  kernel: number | readonly [height: number, width: number];
  /**
   * distance in pixels between neighboring positions of the kernel, in both directions, default 1
   */
  stride?: number;
  /**
   * width in pixels of the border of zeros around an image, less than both sides of the kernel,
   * default 0
   */
  padding?: number;
}

/** A convolution that also gives the shape of its output. */
export interface Conv2d extends Layer {
  /** shape of an output image, which is the input shape of the next convolution */
  readonly shape: ImageShape;
}

/**
 * Returns a convolution, as torch.nn.Conv2d without dilation and groups. Its parameters are weight
 * [filters, channels, kernel, kernel] and bias [filters]. Initial values are uniform within
 * ±1/√(channels · kernel²). Between forward and backward it stores its patches. They take
 * `channels · kernel²` floats for each position of the kernel.
 *
 * @param image shape of an input row: channels, height, width
 * @param filters number of channels of the output
 * @returns a layer for a Network. Pass its `shape` to the next convolution as `image`
 * @throws {TypeError|RangeError} for wrong sizes, or a kernel larger than the padded image
 * @example
 * const first = conv2d([4, 84, 84], 32, { kernel: 8, stride: 4 });
 * const second = conv2d(first.shape, 64, { kernel: 4, stride: 2 });
 * const net = new Network([first, relu(), second, relu(), flatten(), linear(5184, 6)]);
 */
export function conv2d(image: ImageShape, filters: number, options: Conv2dOptions): Conv2d {
  if (!Array.isArray(image) || image.length !== 3)
    throw typeError(
      `conv2d takes images as [channels, height, width], got ${describeValue(image)}`,
    );
  const [channels, height, width] = image.map((size, i) =>
    checkCount(`conv2d: ${['channels', 'height', 'width'][i]}`, size, 1, 2 ** 20),
  ) as [number, number, number];
  checkCount('conv2d: filters', filters, 1, 2 ** 20);
  checkKeys('conv2d', options, ['kernel', 'stride', 'padding']);
  const { kernel, stride = 1, padding = 0 } = options;
  const sides = typeof kernel === 'number' ? [kernel, kernel] : kernel;
  if (!Array.isArray(sides) || sides.length !== 2)
    throw typeError(
      `conv2d: kernel is a number of pixels, or [height, width], got ${describeValue(kernel)}`,
    );
  const [kernelHeight, kernelWidth] = sides.map((side) =>
    checkCount('conv2d: kernel', side, 1, 2 ** 20),
  ) as [number, number];
  checkCount('conv2d: stride', stride, 1, 2 ** 20);
  checkCount('conv2d: padding', padding, 0, Math.min(kernelHeight, kernelWidth) - 1);
  if (kernelHeight > height + 2 * padding || kernelWidth > width + 2 * padding)
    throw rangeError(
      `conv2d: a kernel of ${kernelHeight} × ${kernelWidth} is larger than images of ${height} × ${width} with padding ${padding}`,
    );
  const high = Math.floor((height + 2 * padding - kernelHeight) / stride) + 1;
  const wide = Math.floor((width + 2 * padding - kernelWidth) / stride) + 1;
  const sizes = {
    channels,
    height,
    width,
    kernelHeight,
    kernelWidth,
    stride,
    padding,
    filters,
    high,
    wide,
  };
  const shape: ImageShape = [filters, high, wide];
  return ofKind({ kind: 'conv2d', sizes }, { ...made(sizes, 'none'), shape });
}

/**
 * Returns the convolution followed by the activation `act`. The kernel that adds the bias also
 * computes the activation.
 */
function made(sizes: Sizes, act: Activation): Layer {
  const {
    channels,
    height,
    width,
    kernelHeight,
    kernelWidth,
    stride,
    padding,
    filters,
    high,
    wide,
  } = sizes;
  const [pixels, places, k] = [
    channels * height * width,
    high * wide,
    channels * kernelHeight * kernelWidth,
  ];
  const initial = { bound: 1 / Math.sqrt(k) };
  const shapes = [
    { name: 'weight', shape: [filters, channels, kernelHeight, kernelWidth], initial },
    { name: 'bias', shape: [filters], initial },
  ];
  const flat = (weight: Floats) => weight.view({ shape: [filters, k] });
  /**
   * Splits the values that forward stores for backward: the patches, followed by the product
   * [filters, rows · positions]. backward overwrites the product by the gradient at the product.
   */
  const parts = (kept: Floats, rows: number) => ({
    patches: kept.view({ shape: [k, rows * places] }),
    product: kept.view({ shape: [filters, rows * places], offset: k * rows * places }),
  });
  const numbers = (rows: number, rowsApart: number) =>
    [rows, channels, height, width, kernelHeight, kernelWidth, stride, padding, rowsApart] as const;
  const layer: Layer = {
    name: `conv2d([${channels}, ${height}, ${width}], ${filters}, kernel ${kernelHeight} × ${kernelWidth}, stride ${stride}, padding ${padding})`,
    inputs: pixels,
    outputs: () => filters * places,
    parameters: () => shapes,
    keeps: () => (k + filters) * places,
    scratch: () => k * places,
    forward(stream, { parameters: [weight, bias], x, y, kept }) {
      const rows = y.shape[0]!;
      const { patches, product } = parts(kept!, rows);
      stream.launch('patches', { tensors: [patches, x], wholes: numbers(rows, rowStride(x)) });
      ops.matmul(stream, product, flat(weight!), patches);
      stream.launch('planes', {
        tensors: [y, product, bias!],
        wholes: [rows, filters, places, rowStride(y), activations[act]],
      });
    },
    backward(stream, { parameters: [weight], y, dy, dx, kept, gradients, scratch }) {
      const rows = dy.shape[0]!;
      const { patches, product: d } = parts(kept!, rows);
      stream.launch('planes_backward', {
        tensors: [d, dy, y],
        wholes: [rows, filters, places, rowStride(dy), rowStride(y), activations[act]],
      });
      if (gradients) {
        ops.sum(stream, gradients[1]!.view({ shape: [filters, 1] }), d);
        ops.matmul(stream, flat(gradients[0]!), d, patches, { transB: true });
      }
      if (!dx) return;
      const back = scratch!.view({ shape: [k, rows * places] });
      ops.matmul(stream, back, flat(weight!), d, { transA: true });
      stream.launch('patches_backward', {
        tensors: [dx, back],
        wholes: numbers(rows, rowStride(dx)),
      });
    },
    run(x, rows, y, [weight, bias]) {
      convolved(x, rows, y, weight!, bias!, sizes);
      if (act !== 'none') activate(act, y, rows * filters * places, y);
    },
  };
  if (act !== 'none') return layer;
  const fuse = (next: Layer) => {
    const both = next === relu() ? 'relu' : next === tanh() ? 'tanh' : undefined;
    return both && made(sizes, both);
  };
  return { ...layer, fuse };
}

/**
 * Convolves on the calling thread. It gathers the patch at a position once for all filters, and
 * computes sums in float64.
 */
function convolved(
  x: Float32Array,
  rows: number,
  y: Float32Array,
  weight: Float32Array,
  bias: Float32Array,
  {
    channels,
    height,
    width,
    kernelHeight,
    kernelWidth,
    stride,
    padding,
    filters,
    high,
    wide,
  }: Sizes,
): void {
  const [k, places, pixels] = [
    channels * kernelHeight * kernelWidth,
    high * wide,
    channels * height * width,
  ];
  // The interpreter of traces passes float64 arrays.
  const patch = new (x.constructor as Float32ArrayConstructor)(k);
  for (let row = 0; row < rows; row++)
    for (let place = 0; place < places; place++) {
      const top = Math.floor(place / wide) * stride - padding;
      const left = (place % wide) * stride - padding;
      let to = 0;
      for (let c = 0; c < channels; c++)
        for (let line = top; line < top + kernelHeight; line++) {
          const from = row * pixels + (c * height + line) * width;
          for (let at = left; at < left + kernelWidth; at++)
            patch[to++] =
              line >= 0 && line < height && at >= 0 && at < width ? (x[from + at] as number) : 0;
        }
      for (let filter = 0, w = 0; filter < filters; filter++) {
        let sum = bias[filter] as number;
        for (let i = 0; i < k; i++) sum += (patch[i] as number) * (weight[w++] as number);
        y[(row * filters + filter) * places + place] = sum;
      }
    }
}
