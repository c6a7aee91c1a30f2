/**
 * Shapes as types. Each type gives the shape of an op's result as far as the compiler knows the
 * operands' shapes. A length that it does not know is `number`, and an unknown rank is `Shape`.
 */
import type { Shape } from './shapes.ts';

/** Length of a dimension in which lengths A and B meet. */
type Wider<A extends number, B extends number> = A extends 1 ? B : B extends 1 ? A : Known<A, B>;
type Known<A extends number, B extends number> = number extends A ? B : A;

/** Whether two lengths can meet. */
type Meet<A extends number, B extends number> = number extends A | B
  ? true
  : A extends 1 | B
    ? true
    : B extends 1
      ? true
      : false;

type Unknown<A extends Shape> = number extends A['length'] ? true : false;

/** The shape to which A and B broadcast. */
export type Broadcast<A extends Shape, B extends Shape> = true extends Unknown<A> | Unknown<B>
  ? Shape
  : FromLast<A, B>;
type FromLast<A extends Shape, B extends Shape> = A extends readonly [
  ...infer P extends Shape,
  infer M extends number,
]
  ? B extends readonly [...infer Q extends Shape, infer N extends number]
    ? readonly [...FromLast<P, Q>, Wider<M, N>]
    : A
  : B;

type AllMeet<A extends Shape, B extends Shape> = A extends readonly [
  ...infer P extends Shape,
  infer M extends number,
]
  ? B extends readonly [...infer Q extends Shape, infer N extends number]
    ? Meet<M, N> extends true
      ? AllMeet<P, Q>
      : false
    : true
  : true;

/** `unknown` if A and B broadcast, else a type that no operand has, with both shapes in its name. */
export type Compatible<A extends Shape, B extends Shape> = true extends Unknown<A> | Unknown<B>
  ? unknown
  : AllMeet<A, B> extends true
    ? unknown
    : { 'these shapes do not broadcast': [A, B] };

/** Axes that count from the end, by rank: AXES[rank][−axis − 1]. */
interface FromEnd {
  1: [0];
  2: [1, 0];
  3: [2, 1, 0];
  4: [3, 2, 1, 0];
}
/** An axis as an index from 0. */
type AxisOf<S extends Shape, A extends number> = number extends A
  ? number
  : `${A}` extends `-${infer P extends number}`
    ? S['length'] extends keyof FromEnd
      ? FromEnd[S['length']][IndexOf<P> & keyof FromEnd[S['length']]]
      : never
    : A;
interface Index {
  1: 0;
  2: 1;
  3: 2;
  4: 3;
}
type IndexOf<P extends number> = Index[P & keyof Index];

type Drop<S extends Shape, A, Keep, Seen extends unknown[] = []> = S extends readonly [
  infer N extends number,
  ...infer R extends Shape,
]
  ? Seen['length'] extends A
    ? Keep extends true
      ? readonly [1, ...Drop<R, A, Keep, [...Seen, 0]>]
      : Drop<R, A, Keep, [...Seen, 0]>
    : readonly [N, ...Drop<R, A, Keep, [...Seen, 0]>]
  : readonly [];

/** Options of a reduction. */
export interface ReduceOptions {
  /** an axis, or several. A negative axis counts from the end. Default: all axes */
  readonly axis?: number | readonly number[];
  /** whether reduced dimensions stay, with length 1. Default: false */
  readonly keep?: boolean;
}

type AxisIn<O> = O extends { axis: infer A } ? A : undefined;
type KeepIn<O> = O extends { keep: infer K } ? K : false;
type Each<A> = A extends readonly (infer I extends number)[] ? I : A;
type Ones<S extends Shape> = { readonly [I in keyof S]: 1 };

/** Shape of a reduction with options O. */
export type Reduced<S extends Shape, O> =
  true extends Unknown<S>
    ? Shape
    : AxisIn<O> extends undefined
      ? KeepIn<O> extends true
        ? Ones<S>
        : readonly []
      : Each<AxisIn<O>> extends infer A extends number
        ? number extends A
          ? Shape
          : Drop<S, { [I in A]: AxisOf<S, I> }[A], KeepIn<O>>
        : Shape;

/** The same rank, with lengths that the compiler does not know. */
export type Resized<S extends Shape> = { readonly [I in keyof S]: number };

/** `unknown` if all shapes of the union S may have one rank, else a type that no operand has. */
export type SameRank<S extends Shape> = number extends S['length']
  ? unknown
  : Alone<S['length']> extends true
    ? unknown
    : { 'these shapes differ in rank': S };
type Alone<N, All = N> = N extends unknown ? ([All] extends [N] ? true : false) : never;

/** Shape after a permutation of the axes. */
export type Transposed<S extends Shape, Axes extends Shape> =
  true extends Unknown<S> ? Shape : { readonly [I in keyof Axes]: S[Axes[I] & keyof S] & number };

/** Shape of a matrix product. */
export type Product<A extends Shape, B extends Shape> = A extends readonly [
  infer M extends number,
  number,
]
  ? B extends readonly [number, infer N extends number]
    ? readonly [M, N]
    : Shape
  : A extends readonly [infer P extends number, infer M extends number, number]
    ? B extends readonly [...Shape, infer N extends number]
      ? readonly [P, M, N]
      : Shape
    : Shape;

/** `unknown` if the inner lengths of a product agree, else a type that no operand has. */
export type Multiplies<A extends Shape, B extends Shape> = A extends readonly [
  ...Shape,
  infer K extends number,
]
  ? B extends readonly [...Shape, infer L extends number, number]
    ? Inner<K, L> extends true
      ? unknown
      : { 'these matrices do not multiply': [A, B] }
    : unknown
  : unknown;
type Inner<K extends number, L extends number> = number extends K | L
  ? true
  : K extends L
    ? true
    : false;

/** Shape of x[i, index[i], …]. */
export type Picked<S extends Shape> = S extends readonly [
  infer R extends number,
  number,
  ...infer Rest extends Shape,
]
  ? readonly [R, ...Rest]
  : Shape;

/** Shape of the rows of a table at `index`. */
export type Taken<T extends Shape, I extends Shape> = T extends readonly [
  number,
  infer D extends number,
]
  ? true extends Unknown<I>
    ? Shape
    : readonly [...I, D]
  : Shape;

/** Shape with one more dimension at its end. */
export type Appended<S extends Shape, N extends number> =
  true extends Unknown<S> ? Shape : readonly [...S, N];
