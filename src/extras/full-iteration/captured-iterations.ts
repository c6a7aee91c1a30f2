/**
 * Keeps the state of a FullGraphWrapper between iterations. Each stage has static buffers and a
 * graph for each shape of its data.
 */

import { rangeError } from '../../base/errors.ts';
import type { Device, GraphExec } from '../../device/device.ts';
import type { GraphPool } from '../../device/graph/shared.ts';
import { guardConstruction, Owner, own } from '../../device/owner.ts';
import type { IterationData, IterationShape } from './iteration.ts';
import { type Stage, StaticBufferLoader, settleKeys, stages } from './static-buffer-loader.ts';

export type PerStage<T> = Record<Stage, T>;

/** Owns the static buffers and the graph for one stage and one shape of the data. */
export class CapturedIteration extends Owner {
  readonly shape: IterationShape;
  /** one loader per model, null for a model that reads no data */
  readonly loaders: readonly (StaticBufferLoader | null)[];
  pool: GraphPool | null = null;
  exec: GraphExec | null = null;
  result: unknown = null;

  constructor(shape: IterationShape, iterators: readonly unknown[], device: Device) {
    super('this iteration');
    this.shape = shape;
    using construction = guardConstruction(this);
    this.loaders = iterators.map((each) =>
      each === null ? null : own(this, new StaticBufferLoader(device)),
    );
    own(this, { close: () => this.reset() });
    construction.done();
  }

  /**
   * Records that a graph was captured. Every later iteration must supply all tensors that the graph
   * reads.
   */
  settle(stage: Stage, data: IterationData): void {
    this.shape.settle(data);
    for (const loader of this.loaders) if (loader) settleKeys(loader, stage);
  }

  /** Closes the graph and its pool. The buffers stay open. */
  reset(): void {
    this.exec?.close();
    this.pool?.close();
    this.exec = this.pool = this.result = null;
  }
}

export class CapturedIterations extends Owner {
  readonly #iterations: PerStage<CapturedIteration[]> = { training: [], validation: [] };
  /**
   * iterations to close. If close() of an iteration throws, the iteration stays here, and the next
   * #sweep() closes it again
   */
  readonly #retired: CapturedIteration[] = [];
  /** maximum number of captured iterations per stage */
  readonly #mostGraphs: number;

  constructor(mostGraphs: number) {
    super('this wrapper');
    this.#mostGraphs = mostGraphs;
    own(this, {
      close: () => {
        for (const stage of stages) this.#retired.push(...this.#iterations[stage].splice(0));
        this.#sweep();
      },
    });
  }

  of(stage: Stage): readonly CapturedIteration[] {
    return this.#iterations[stage];
  }

  /**
   * Throws RangeError if the stage already has the maximum number of graphs. The error text
   * contains `why`, which describes the change in the data.
   */
  checkRoom(stage: Stage, why: string): void {
    const captured = this.#iterations[stage].filter(({ exec }) => exec).length;
    if (captured < this.#mostGraphs) return;
    const bound =
      this.#mostGraphs === 1 ? '' : ` (${captured} graphs are kept, which is the maximum)`;
    throw rangeError(
      `${stage} changed after its graph was captured: ${why}${bound}; keep iterations alike, call resetGraph('${stage}'), or raise maxGraphs`,
    );
  }

  /**
   * Adds `fresh` to the iterations of the stage. Closes an earlier iteration of the stage that has
   * no graph, so that a stage has at most one.
   */
  keep(stage: Stage, fresh: CapturedIteration): void {
    for (const old of this.#iterations[stage].splice(0))
      (old.exec ? this.#iterations[stage] : this.#retired).push(old);
    this.#iterations[stage].push(fresh);
    this.#sweep();
  }

  #sweep(): void {
    for (let each = this.#retired.at(-1); each; each = this.#retired.at(-1)) {
      each.close();
      this.#retired.pop();
    }
  }
}
