/**
 * Passes of a network in float64 without a device, for the interpreter of a trace. It runs each
 * layer's run(), which calculates in the precision of the arrays that it gets.
 */
import { elementCount } from '../../base/dtype.ts';
import { kindOf } from '../network/kinds.ts';
import type { Layer } from '../network/layers.ts';
import type { Network } from '../network/network.ts';
import { refuseType } from './tape.ts';

type Values = Float64Array;
type Slope = (x: number) => number;

/** A layer with its parameters and input. */
interface Step {
  readonly layer: Layer;
  readonly parameters: readonly Values[];
  readonly offsets: readonly number[];
  readonly x: Values;
  readonly inputs: number;
  readonly outputs: number;
}

function run(layer: Layer, x: Values, rows: number, parameters: readonly Values[], inputs: number) {
  if (!layer.run)
    return refuseType(`checkGradients: ${layer.name} has no run(), which computes it on the host`);
  const y = new Float64Array(rows * layer.outputs(inputs));
  const floats = (array: Values) => array as unknown as Float32Array;
  layer.run(floats(x), rows, floats(y), parameters.map(floats), inputs);
  return y;
}

/** Runs the layers on `rows` rows. Returns the outputs and each layer's input. */
function forward(network: Network, x: Values, rows: number, flat: Values) {
  const steps: Step[] = [];
  let [values, inputs] = [x, network.inputs];
  for (const [i, layer] of network.layers.entries()) {
    if (layer.passes) continue;
    const own = network.parameters.filter(({ name }) => Number.parseInt(name, 10) === i);
    const parameters = own.map(({ offset, shape }) =>
      flat.slice(offset, offset + elementCount(shape)),
    );
    const [outputs, offsets] = [layer.outputs(inputs), own.map(({ offset }) => offset)];
    steps.push({ layer, parameters, offsets, x: values, inputs, outputs });
    values = run(layer, values, rows, parameters, inputs);
    inputs = outputs;
  }
  return { y: values, steps };
}

/** Returns the outputs of all members for x [rows, inputs]. */
export function networkValues(network: Network, members: number, x: Values, flat: Values): Values {
  const [rows, count] = [x.length / network.inputs, network.parameterCount];
  const y = new Float64Array(members * rows * network.outputs);
  for (let j = 0; j < members; j++) {
    const own = flat.subarray(j * count, (j + 1) * count);
    y.set(forward(network, x, rows, own).y, j * rows * network.outputs);
  }
  return y;
}

/** Step of the central differences of layers without a formula here. */
const DIFFERENCE = 1e-5;

/** Returns the gradient of Σ dy · layer(x) by central differences with respect to `values`. */
function difference(values: Values, dy: Values, run: () => Values): Values {
  const at = (i: number, moved: number): Values => {
    const before = values[i]!;
    values[i] = before + moved;
    const y = run();
    values[i] = before;
    return y;
  };
  return values.map((_, i) => {
    const [above, below] = [at(i, DIFFERENCE), at(i, -DIFFERENCE)];
    return dy.reduce((sum, d, k) => sum + (d * (above[k]! - below[k]!)) / (2 * DIFFERENCE), 0);
  });
}

/** Returns the gradients of a layer at its input and at its parameters. */
function layerSlope(step: Step, dy: Values, rows: number, slopeOf: (name: string) => Slope) {
  const { layer, parameters, x, inputs, outputs } = step;
  const kind = kindOf(layer);
  if (kind?.kind === 'activation') {
    const slope = slopeOf(kind.name);
    return { dx: dy.map((d, i) => d * slope(x[i]!)), gradients: [] };
  }
  if (kind?.kind !== 'linear') {
    const again = () => run(layer, x, rows, parameters, inputs);
    const gradients = parameters.map((values) => difference(values, dy, again));
    return { dx: difference(x, dy, again), gradients };
  }
  const [weight] = parameters as [Values];
  const dx = new Float64Array(x.length);
  const gradients = parameters.map(({ length }) => new Float64Array(length)) as [Values, Values];
  for (let row = 0; row < rows; row++)
    for (let o = 0; o < outputs; o++) {
      const d = dy[row * outputs + o]!;
      gradients[1][o]! += d;
      for (let i = 0; i < inputs; i++) {
        gradients[0][o * inputs + i]! += d * x[row * inputs + i]!;
        dx[row * inputs + i]! += d * weight[o * inputs + i]!;
      }
    }
  return { dx, gradients };
}

/** Returns the gradients of x and of all members' parameters. `slopeOf` has slopes by activation. */
export function networkSlopes(
  network: Network,
  members: number,
  [dy, , x, flat]: readonly [Values, unknown, Values, Values],
  slopeOf: (name: string) => Slope,
): [dx: Values, gradient: Values] {
  const [rows, count] = [x.length / network.inputs, network.parameterCount];
  const dx = new Float64Array(x.length);
  const gradient = new Float64Array(members * count);
  for (let j = 0; j < members; j++) {
    const { steps } = forward(network, x, rows, flat.subarray(j * count, (j + 1) * count));
    let arriving = dy.slice(j * rows * network.outputs, (j + 1) * rows * network.outputs);
    for (const step of steps.reverse()) {
      const found = layerSlope(step, arriving, rows, slopeOf);
      for (const [p, each] of found.gradients.entries())
        gradient.set(each, j * count + step.offsets[p]!);
      arriving = found.dx as typeof arriving;
    }
    for (let i = 0; i < dx.length; i++) dx[i]! += arriving[i]!;
  }
  return [dx, gradient];
}
