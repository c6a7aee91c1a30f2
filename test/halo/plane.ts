/**
 * A doubly periodic plane that is split over ranks, for tests of the exchange. Every cell holds a
 * number that encodes exchange, quantity and cell. A value that arrives late, twice, torn or in the
 * wrong cell is thus detected.
 */
import type { TypedArray } from '../../src/base/dtype.ts';
import type { HaloQuantity } from '../../src/extras/halo/quantity.ts';
import {
  type SharedHaloExchange,
  shareHaloExchange,
} from '../../src/extras/halo/shared-exchange.ts';
import type { QuantityHaloOptions } from '../../src/extras/halo/spec.ts';
import { periodicTopology } from '../../src/extras/halo/topology.ts';
import type { Device, Tensor } from '../../src/index.ts';

/**
 * number of cells of a rank along i and j, number of levels, and halo points of the two quantities
 */
const NI = 5;
const NJ = 4;
const NK = 2;
const POINTS = [2, 1] as const;
/**
 * value of a halo before an exchange, and of a compute domain that was overwritten after it was
 * sent
 */
const NOTHING = -1;

export interface Plane {
  layout: readonly [columns: number, rows: number];
  shared: SharedHaloExchange;
}

export function plane(columns: number, rows: number): Plane {
  const layout = [columns, rows] as const;
  return {
    layout,
    shared: shareHaloExchange({ topology: periodicTopology({ layout }), x: specs() }),
  };
}

/**
 * Describes two quantities. The first has dimensions i, j, k. The second begins with the levels,
 * and its elements have gaps.
 */
function specs(): QuantityHaloOptions[] {
  const [a, b] = POINTS;
  const wide = (n: number, points: number) => n + 2 * points;
  return [
    {
      nPoints: a,
      shape: [wide(NI, a), wide(NJ, a), NK],
      origin: [a, a, 0],
      extent: [NI, NJ, NK],
      dims: ['i', 'j', 'k'],
      dtype: 'float64',
    },
    {
      nPoints: b,
      shape: [NK, wide(NJ, b), wide(NI, b)],
      strides: [wide(NI, b) * wide(NJ, b) * 3, wide(NI, b) * 2, 2],
      origin: [0, b, b],
      extent: [NK, NJ, NI],
      dims: ['k', 'j', 'i'],
      dtype: 'float64',
    },
  ];
}

/** The arrays of one rank. */
export class Part {
  readonly rank: number;
  readonly quantities: HaloQuantity[];
  readonly #plane: Plane;
  readonly #arrays: Float64Array[];
  readonly #tensors: Tensor[];

  constructor(plane: Plane, rank: number, device: Device | null = null) {
    this.rank = rank;
    this.#plane = plane;
    this.#arrays = specs().map(({ shape, strides }) => {
      const span = strides
        ? shape.reduce((sum, n, d) => sum + (n - 1) * strides[d]!, 1)
        : shape.reduce((n, d) => n * d);
      return new Float64Array(span).fill(NOTHING);
    });
    this.#tensors = device
      ? this.#arrays.map(({ length }) => device.allocate({ shape: [length], dtype: 'float64' }))
      : [];
    this.quantities = this.#arrays.map((data, q) => ({ data: this.#tensors[q] ?? data }));
  }

  /** Sets the compute domains to the values of this exchange, and the halos to NOTHING. */
  fill(exchange: number): this {
    this.#each((q, at, i, j, k, inside) => {
      this.#arrays[q]![at] = inside ? this.#value(exchange, q, i, j, k) : NOTHING;
    });
    this.#write();
    return this;
  }

  /** Overwrites the compute domains, which is allowed after they were sent. */
  spoil(): void {
    if (this.#tensors.length > 0)
      for (const each of this.#tensors) each.device.currentStream.fill(each, NOTHING);
    this.#each((q, at, _i, _j, _k, inside) => {
      if (inside) this.#arrays[q]![at] = NOTHING;
    });
  }

  /** Returns what is wrong with the received halos, or null. */
  async wrong(exchange: number): Promise<string | null> {
    for (const [q, tensor] of this.#tensors.entries())
      this.#arrays[q]!.set((await tensor.toArray()) as Float64Array);
    return this.wrongHere(exchange);
  }
  wrongHere(exchange: number): string | null {
    let wrong: string | null = null;
    this.#each((q, at, i, j, k, inside) => {
      const wanted = this.#value(exchange, q, i, j, k);
      const got = this.#arrays[q]![at]!;
      if (!inside && got !== wanted)
        wrong ??= `rank ${this.rank}, exchange ${exchange}: quantity ${q} at (${i}, ${j}, ${k}) is ${got}, not ${wanted}`;
    });
    return wrong;
  }

  close(): void {
    for (const each of this.#tensors) each.close();
  }

  #write(): void {
    for (const [q, tensor] of this.#tensors.entries()) tensor.write(this.#arrays[q] as TypedArray);
  }

  /** Calls `fn` for every cell. i, j and k count from the first cell of the compute domain. */
  #each(
    fn: (q: number, at: number, i: number, j: number, k: number, inside: boolean) => void,
  ): void {
    for (const [q, points] of POINTS.entries()) {
      const { shape, strides = [shape[1]! * shape[2]!, shape[2]!, 1], dims } = specs()[q]!;
      const [si, sj, sk] = ['i', 'j', 'k'].map((name) => strides[dims.indexOf(name)]!) as [
        number,
        number,
        number,
      ];
      for (let i = -points; i < NI + points; i++)
        for (let j = -points; j < NJ + points; j++)
          for (let k = 0; k < NK; k++) {
            const inside = i >= 0 && i < NI && j >= 0 && j < NJ;
            fn(q, (i + points) * si + (j + points) * sj + k * sk, i, j, k, inside);
          }
    }
  }

  #value(exchange: number, q: number, i: number, j: number, k: number): number {
    const [columns, rows] = this.#plane.layout;
    const [column, row] = [this.rank % columns, Math.floor(this.rank / columns)];
    const [wide, high] = [columns * NI, rows * NJ];
    const at = (column * NI + i + wide) % wide;
    const above = (row * NJ + j + high) % high;
    return (((exchange * 2 + q) * wide + at) * high + above) * NK + k;
  }
}
