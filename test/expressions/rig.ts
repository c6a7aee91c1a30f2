/** What tests of expressions share: random numbers, programs, and comparisons with the interpreter. */
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import type { Expression } from '../../src/entries/trace.ts';
import { openDevice, type Stream, type Tensor } from '../../src/index.ts';
import { nodeFrom } from '../../src/learn/trace/expression.ts';
import { evaluate, type Values } from '../../src/learn/trace/interpreter.ts';
import { sizeOf } from '../../src/learn/trace/shapes.ts';
import type { Node } from '../../src/learn/trace/tape.ts';
import { type InternalOptions, trace } from '../../src/learn/trace/trace.ts';
import { TESTED } from '../rig/tested-device.ts';

/** Random choices of a test, which depend only on its seed. */
export class Choices {
  readonly #random: Random;
  constructor(seed: number) {
    this.#random = new Random(seed);
  }
  /** a whole number from 0 to n − 1 */
  below(n: number): number {
    return Math.min(n - 1, Math.floor(this.#random.between(0, n)));
  }
  chance(part: number): boolean {
    return this.#random.between(0, 1) < part;
  }
  of<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
  between(low: number, high: number): number {
    return this.#random.between(low, high);
  }
  /** A shape of this rank with lengths from 1 to `most`. */
  shape(rank: number, most = 4): number[] {
    return Array.from({ length: rank }, () => 1 + this.below(most));
  }
  /** Numbers that float32 holds exactly, with distances of at least 2⁻¹⁰ from each other. */
  numbers(size: number, low = -2, high = 2): number[] {
    return Array.from({ length: size }, () => Math.round(this.between(low, high) * 1024) / 1024);
  }
  /** Whole numbers below n. */
  indices(size: number, n: number): number[] {
    return Array.from({ length: size }, () => this.below(n));
  }
}

export interface Input {
  readonly shape: readonly number[];
  readonly values: readonly number[];
  readonly dtype?: 'float32' | 'int32' | 'bool';
}
export type Inputs = Readonly<Record<string, Input>>;
export type Program = (
  inputs: Readonly<Record<string, Expression>>,
) => Readonly<Record<string, Expression>>;

const arrays = { float32: Float32Array, int32: Int32Array, bool: Uint8Array } as const;

/** Writes inputs to the device, as columns of wider rows if `gap` is above 0. */
export function written(stream: Stream, inputs: Inputs, gap = 0): Record<string, Tensor> {
  const device = openDevice(TESTED);
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { shape, values, dtype = 'float32' }]) => {
      const rows = shape[0] ?? 1;
      const width = values.length / rows;
      const pitch = width + (shape.length > 0 ? gap : 0);
      const all = new arrays[dtype](rows * pitch).fill(7);
      values.forEach((value, i) => {
        all[Math.floor(i / width) * pitch + (i % width)] = value;
      });
      const whole = device.allocate({ shape: [all.length], dtype }).write(all as never, stream);
      const strides = shape.map((_, d) => (d === 0 ? pitch : sizeOf(shape.slice(d + 1))));
      return [name, whole.view({ shape: [...shape], strides }) as Tensor];
    }),
  );
}

export interface Ran {
  /** results by name, from the device */
  readonly results: Readonly<Record<string, Float32Array>>;
  /** the same from the interpreter, in float64 */
  readonly exact: Readonly<Record<string, Values>>;
  /** how far rounding moves each result, as far as random roundings show */
  readonly spread: Readonly<Record<string, number>>;
  readonly plan: string;
  readonly launches: number;
}

/** Returns whether an op rounds its results. Views and indices are exact. */
const computes = ({ op, attributes }: Node): boolean =>
  !/^(ranks|categorical|reshape|transpose|slice|broadcast|flip|pad|concat|where|detach|custom)$/.test(
    op,
  ) && !('f' in attributes && /^(arg(max|min)|eq|ne|lt|le|gt|ge|sign|floor)$/.test(attributes.f));

/** Size of the random roundings, in units of the last place of a float32. */
const ROUNDINGS = [4, 64];

/**
 * Runs a program on the tested device and in the interpreter. Random numbers that the program draws
 * must be among its results, so that the interpreter gets the same ones.
 */
export async function ran(
  inputs: Inputs,
  program: Program,
  { gap = 0, ...options }: InternalOptions & { gap?: number } = {},
): Promise<Ran> {
  const device = openDevice(TESTED);
  const stream = device.currentStream;
  const described = Object.fromEntries(
    Object.entries(inputs).map(([name, { shape, dtype = 'float32' }]) => [name, { shape, dtype }]),
  );
  let made: Readonly<Record<string, Expression>> = {};
  using traced = trace(
    device,
    described,
    (given) => {
      made = program(given);
      return made;
    },
    options,
  );
  const tensors = written(stream, inputs, gap);
  traced.run(stream, tensors);
  const results: Record<string, Float32Array> = {};
  for (const [name, tensor] of Object.entries(traced.outputs as Record<string, Tensor<'float32'>>))
    results[name] = await tensor.toArray(stream);
  for (const tensor of Object.values(tensors)) tensor.close();
  const names = Object.keys(made);
  const nodes = names.map((name) => nodeFrom(made[name]!));
  const given = (node: Parameters<Parameters<typeof evaluate>[1]>[0]): Values => {
    if (node.op === 'input') return Float64Array.from(inputs[node.attributes.name]!.values);
    const drawn = names.find((_, i) => nodes[i] === node);
    expect(drawn, 'a draw must be a result').to.be.a('string');
    return Float64Array.from(results[drawn!]!);
  };
  const exact = evaluate(nodes, given);
  const spread = nodes.map(() => 0);
  for (const [round, size] of ROUNDINGS.entries()) {
    const random = new Random(round + 1);
    const moved = evaluate(nodes, given, new Map(), (values, node) =>
      computes(node) ? values.map((x) => x * (1 + random.between(-size, size) * 2 ** -24)) : values,
    );
    for (const [i, values] of moved.entries())
      values.forEach((x, j) => {
        const distance = Math.abs(x - exact[i]![j]!);
        if (x !== exact[i]![j]! && !(distance <= spread[i]!)) spread[i] = distance;
      });
  }
  return {
    results,
    exact: Object.fromEntries(names.map((name, i) => [name, exact[i]!])),
    spread: Object.fromEntries(names.map((name, i) => [name, spread[i]!])),
    plan: String(traced.plan),
    launches: traced.plan.launches,
  };
}

/**
 * Returns the first difference between the device and the interpreter, or null. A result may differ
 * by what rounding explains.
 */
export function difference({ results, exact, spread }: Ran): string | null {
  for (const [name, values] of Object.entries(exact)) {
    const got = results[name]!;
    if (got.length !== values.length)
      return `${name} has ${got.length} elements, not ${values.length}`;
    const scale = values.reduce(
      (most, x) => (Number.isFinite(x) ? Math.max(most, Math.abs(x)) : most),
      1,
    );
    const allowed = 4e-6 * scale + 4 * spread[name]!;
    for (const [i, wanted] of values.entries()) {
      const found = got[i]!;
      if (found === wanted || (Number.isNaN(found) && Number.isNaN(wanted))) continue;
      if (!(Math.abs(found - wanted) <= allowed))
        return `${name}[${i}] is ${found}, and the interpreter computes ${wanted}, with ${allowed} allowed`;
    }
  }
  return null;
}

/** Returns the bits of floats as text. */
export const bits = (values: Float32Array): string => Buffer.from(values.buffer).toString('hex');

export interface Computed {
  /** bits of each result, where all NaN are equal */
  readonly bits: Readonly<Record<string, string>>;
  readonly plan: string;
  readonly launches: number;
  readonly bytes: number;
}

/** Runs a program on the tested device, twice with the same plan. */
export async function computed(
  inputs: Inputs,
  program: Program,
  { gap = 0, ...options }: InternalOptions & { gap?: number } = {},
): Promise<Computed> {
  const device = openDevice(TESTED);
  const stream = device.currentStream;
  const described = Object.fromEntries(
    Object.entries(inputs).map(([name, { shape, dtype = 'float32' }]) => [name, { shape, dtype }]),
  );
  using traced = trace(device, described, program, options);
  const tensors = written(stream, inputs, gap);
  traced.run(stream, tensors);
  traced.run(stream, tensors);
  const found: Record<string, string> = {};
  for (const [name, tensor] of Object.entries(traced.outputs as Record<string, Tensor<'float32'>>))
    found[name] = bits(
      (await tensor.toArray(stream)).map((x) => (Number.isNaN(x) ? Number.NaN : x)),
    );
  for (const tensor of Object.values(tensors)) tensor.close();
  const { launches, bytes } = traced.plan;
  return { bits: found, plan: String(traced.plan), launches, bytes };
}
