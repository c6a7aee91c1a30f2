/**
 * Forward passes of layers on the calling thread, for policies. The loops are unrolled so that V8
 * keeps the sums in registers.
 */

/**
 * Computes y = x · weightᵀ + bias for `rows` rows, with sums in float64. `weight` is [outputs,
 * inputs]. The loop processes two rows at a time, and last() processes an odd last row.
 */
export function dense(
  x: Float32Array,
  rows: number,
  y: Float32Array,
  weight: Float32Array,
  bias: Float32Array,
  inputs: number,
): void {
  const outputs = bias.length;
  const whole = outputs - (outputs % 4);
  for (let row = 0; row + 1 < rows; row += 2) {
    const [first, second] = [row * inputs, (row + 1) * inputs];
    for (let o = 0; o < whole; o += 4) {
      let a0 = bias[o] as number;
      let a1 = bias[o + 1] as number;
      let a2 = bias[o + 2] as number;
      let a3 = bias[o + 3] as number;
      let b0 = a0;
      let b1 = a1;
      let b2 = a2;
      let b3 = a3;
      let at0 = o * inputs;
      let at1 = at0 + inputs;
      let at2 = at1 + inputs;
      let at3 = at2 + inputs;
      for (let i = 0; i < inputs; i++) {
        const p = x[first + i] as number;
        const q = x[second + i] as number;
        const w0 = weight[at0++] as number;
        const w1 = weight[at1++] as number;
        const w2 = weight[at2++] as number;
        const w3 = weight[at3++] as number;
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
      y[row * outputs + o] = one(x, first, weight, bias, inputs, o);
      y[(row + 1) * outputs + o] = one(x, second, weight, bias, inputs, o);
    }
  }
  if (rows % 2 === 1) last(x, rows - 1, y, weight, bias, inputs);
}

function last(
  x: Float32Array,
  row: number,
  y: Float32Array,
  weight: Float32Array,
  bias: Float32Array,
  inputs: number,
): void {
  const outputs = bias.length;
  const whole = outputs - (outputs % 4);
  const first = row * inputs;
  for (let o = 0; o < whole; o += 4) {
    let a0 = bias[o] as number;
    let a1 = bias[o + 1] as number;
    let a2 = bias[o + 2] as number;
    let a3 = bias[o + 3] as number;
    let at0 = o * inputs;
    let at1 = at0 + inputs;
    let at2 = at1 + inputs;
    let at3 = at2 + inputs;
    for (let i = 0; i < inputs; i++) {
      const p = x[first + i] as number;
      a0 += p * (weight[at0++] as number);
      a1 += p * (weight[at1++] as number);
      a2 += p * (weight[at2++] as number);
      a3 += p * (weight[at3++] as number);
    }
    const to = row * outputs + o;
    y[to] = a0;
    y[to + 1] = a1;
    y[to + 2] = a2;
    y[to + 3] = a3;
  }
  for (let o = whole; o < outputs; o++)
    y[row * outputs + o] = one(x, first, weight, bias, inputs, o);
}

function one(
  x: Float32Array,
  first: number,
  weight: Float32Array,
  bias: Float32Array,
  inputs: number,
  o: number,
): number {
  let sum = bias[o] as number;
  for (let i = 0, at = o * inputs; i < inputs; i++, at++)
    sum += (x[first + i] as number) * (weight[at] as number);
  return sum;
}

/** Computes y = (x − mean) / √(variance + epsilon) · weight + bias for each row. */
export function normalize(
  x: Float32Array,
  rows: number,
  y: Float32Array,
  weight: Float32Array,
  bias: Float32Array,
  epsilon: number,
): void {
  const n = weight.length;
  for (let at = 0; at < rows * n; at += n) {
    let mean = 0;
    for (let j = 0; j < n; j++) mean += x[at + j] as number;
    mean /= n;
    let spread = 0;
    for (let j = 0; j < n; j++) spread += ((x[at + j] as number) - mean) ** 2;
    const rest = 1 / Math.sqrt(spread / n + epsilon);
    for (let j = 0; j < n; j++)
      y[at + j] =
        ((x[at + j] as number) - mean) * rest * (weight[j] as number) + (bias[j] as number);
  }
}

const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v));

/**
 * Returns the cumulative distribution of the standard normal distribution at x. For |x| < 3 it sums
 * a series, which converges fast. For larger |x| it computes a continued fraction.
 */
function phi(x: number): number {
  const size = Math.abs(x);
  if (size > 39) return x > 0 ? 1 : 0;
  const density = Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  if (size < 3) {
    let [sum, term] = [x, x];
    for (let divisor = 3; Math.abs(term) > 1e-17 * Math.abs(sum); divisor += 2) {
      term *= (x * x) / divisor;
      sum += term;
    }
    return 0.5 + sum * density;
  }
  let fraction = size;
  for (let k = 60; k > 0; k--) fraction = size + k / fraction;
  const beyond = density / fraction;
  return x > 0 ? 1 - beyond : beyond;
}

const functions = {
  sigmoid,
  silu: (v) => v * sigmoid(v),
  gelu: (v) => v * phi(v),
  geluTanh: (v) => v * sigmoid(2 * Math.sqrt(2 / Math.PI) * (v + 0.044715 * v * v * v)),
  elu: (v) => (v > 0 ? v : Math.expm1(v)),
} satisfies Record<string, (v: number) => number>;

export type ActivationName = 'relu' | 'tanh' | keyof typeof functions;

/** Computes y = f(x) for the first `n` elements. `y` may be `x`. */
export function activate(name: ActivationName, x: Float32Array, n: number, y: Float32Array): void {
  if (name === 'relu') {
    for (let i = 0; i < n; i++) {
      const v = x[i] as number;
      y[i] = v < 0 ? 0 : v;
    }
  } else if (name === 'tanh') {
    for (let i = 0; i < n; i++) y[i] = Math.tanh(x[i] as number);
  } else {
    const f = functions[name];
    for (let i = 0; i < n; i++) y[i] = f(x[i] as number);
  }
}
