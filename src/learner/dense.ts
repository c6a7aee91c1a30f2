/** A dense layer on the calling thread, for policies: plain loops arranged so that V8 keeps the sums in registers. */
import type { Activation } from './activation.ts';
import type { DenseLayer } from './mlp-layout.ts';

/** y = x·W + b for `rows` rows; sums run in double. Rows go in pairs, an odd last one alone. */
export function dense(
  x: Float32Array,
  rows: number,
  layer: DenseLayer,
  parameters: Float32Array,
  y: Float32Array,
): void {
  for (let row = 0; row + 1 < rows; row += 2) twoRows(x, row, layer, parameters, y);
  if (rows % 2 === 1) oneRow(x, rows - 1, layer, parameters, y);
}

function twoRows(x: Float32Array, row: number, layer: DenseLayer, w: Float32Array, y: Float32Array): void {
  const { inputs, outputs, weight, bias } = layer;
  const whole = outputs - (outputs % 4);
  const first = row * inputs;
  const second = first + inputs;
  for (let o = 0; o < whole; o += 4) {
    let a0 = w[bias + o] as number;
    let a1 = w[bias + o + 1] as number;
    let a2 = w[bias + o + 2] as number;
    let a3 = w[bias + o + 3] as number;
    let b0 = a0;
    let b1 = a1;
    let b2 = a2;
    let b3 = a3;
    for (let i = 0, at = weight + o; i < inputs; i++, at += outputs) {
      const p = x[first + i] as number;
      const q = x[second + i] as number;
      const w0 = w[at] as number;
      const w1 = w[at + 1] as number;
      const w2 = w[at + 2] as number;
      const w3 = w[at + 3] as number;
      a0 += p * w0;
      a1 += p * w1;
      a2 += p * w2;
      a3 += p * w3;
      b0 += q * w0;
      b1 += q * w1;
      b2 += q * w2;
      b3 += q * w3;
    }
    const to = row * outputs + o;
    const below = to + outputs;
    y[to] = a0;
    y[to + 1] = a1;
    y[to + 2] = a2;
    y[to + 3] = a3;
    y[below] = b0;
    y[below + 1] = b1;
    y[below + 2] = b2;
    y[below + 3] = b3;
  }
  for (let o = whole; o < outputs; o++) {
    y[row * outputs + o] = oneOutput(x, first, layer, w, o);
    y[(row + 1) * outputs + o] = oneOutput(x, second, layer, w, o);
  }
}

function oneRow(x: Float32Array, row: number, layer: DenseLayer, w: Float32Array, y: Float32Array): void {
  const { inputs, outputs, weight, bias } = layer;
  const whole = outputs - (outputs % 4);
  const first = row * inputs;
  for (let o = 0; o < whole; o += 4) {
    let a0 = w[bias + o] as number;
    let a1 = w[bias + o + 1] as number;
    let a2 = w[bias + o + 2] as number;
    let a3 = w[bias + o + 3] as number;
    for (let i = 0, at = weight + o; i < inputs; i++, at += outputs) {
      const p = x[first + i] as number;
      a0 += p * (w[at] as number);
      a1 += p * (w[at + 1] as number);
      a2 += p * (w[at + 2] as number);
      a3 += p * (w[at + 3] as number);
    }
    const to = row * outputs + o;
    y[to] = a0;
    y[to + 1] = a1;
    y[to + 2] = a2;
    y[to + 3] = a3;
  }
  for (let o = whole; o < outputs; o++) y[row * outputs + o] = oneOutput(x, first, layer, w, o);
}

function oneOutput(x: Float32Array, first: number, layer: DenseLayer, w: Float32Array, o: number): number {
  const { inputs, outputs, weight, bias } = layer;
  let sum = w[bias + o] as number;
  for (let i = 0, at = weight + o; i < inputs; i++, at += outputs) sum += (x[first + i] as number) * (w[at] as number);
  return sum;
}

/** The activation in place over the first `length` values. */
export function activate(y: Float32Array, length: number, activation: Activation): void {
  if (activation === 'relu') {
    for (let i = 0; i < length; i++) if ((y[i] as number) < 0) y[i] = 0;
  } else if (activation === 'tanh') {
    for (let i = 0; i < length; i++) y[i] = Math.tanh(y[i] as number);
  }
}
