/**
 * Creates trajectory buffers for benchmarks, and makes batches the way the pack actor does, into
 * memory that is reused.
 */
import { TrajectoryBuffer, type View } from '../src/index.ts';
import { allocateShared } from '../src/shm/memory.ts';
import { lanesAddon, type ViewHandle } from '../src/store/lanes/lanes-addon.ts';
import type { StepFields } from '../src/store/lanes/schema.ts';
import { internalsOfTrajectories } from '../src/store/lanes/trajectory-buffer.ts';
import {
  type Column,
  columnsOf,
  placeColumns,
  viewNumbers,
  type Weighted,
} from '../src/store/views/columns.ts';
import { specOf } from '../src/store/views/views.ts';

/**
 * Returns the arguments of one add() for all lanes, without `truncated`. The final observations of
 * an episode are the same arrays as the observations.
 */
export function stepsOf(
  fields: StepFields,
  lanes: number,
): Record<string, Float32Array | Uint8Array> {
  const steps: Record<string, Float32Array | Uint8Array> = {};
  for (const [name, { shape = [], dtype, mask, observation }] of Object.entries(fields)) {
    const values = new (dtype === undefined && mask === undefined ? Float32Array : Uint8Array)(
      lanes * (mask ?? shape.reduce((a, b) => a * b, 1)),
    );
    steps[name] = values.map((_, i) => i);
    if (observation) steps[`final${name.charAt(0).toUpperCase()}${name.slice(1)}`] = steps[name];
  }
  return { ...steps, rewards: new Float32Array(lanes).fill(1), terminated: new Uint8Array(lanes) };
}

/**
 * Creates a full buffer. Its fields must be float32 or bytes. Each lane's episode is truncated
 * every `episode` steps, and the lanes' episodes end at different steps.
 */
export function filledSteps(
  options: { capacity: number; lanes: number; fields: StepFields },
  episode = Number.POSITIVE_INFINITY,
): TrajectoryBuffer {
  const buffer: TrajectoryBuffer = TrajectoryBuffer.create(options);
  using writer = buffer.writer();
  const steps = stepsOf(options.fields, buffer.lanes);
  const truncated = new Uint8Array(buffer.lanes);
  for (let step = 0; step < buffer.laneCapacity; step++) {
    for (let lane = 0; lane < buffer.lanes; lane++)
      truncated[lane] = (step + lane * 7) % episode === episode - 1 ? 1 : 0;
    writer.add({ ...steps, truncated } as never);
  }
  return buffer;
}

/** Draws and makes batches of a view. `only` restricts the batch to the named columns. */
export class Batches {
  readonly rows: number;
  readonly bytes: number;
  readonly out: Uint8Array;
  readonly #view: ViewHandle;
  readonly #ids: Float64Array;
  readonly #memory: readonly unknown[];

  constructor(
    buffer: TrajectoryBuffer,
    {
      view,
      rows,
      only,
      prioritized = false,
    }: { view: View; rows: number; only?: string[]; prioritized?: boolean },
  ) {
    const spec = specOf(view);
    const { memory } = internalsOfTrajectories(buffer);
    const weighted: Weighted = prioritized ? 'device' : 'no';
    const wanted = (column: Column) => only?.includes(column.key) ?? true;
    const layout = placeColumns(columnsOf(buffer.layout, spec, weighted).filter(wanted), rows);
    const { rule, columns } = viewNumbers(spec, layout);
    const { capacity, lanes } = buffer;
    let tree: Float64Array | undefined;
    if (prioritized) {
      const bytes = lanesAddon().treeBytes(capacity, lanes);
      const place = allocateShared('a tree', bytes, 64);
      tree = new Float64Array(place.memory, place.offset, bytes / 8);
      lanesAddon().formatTree(tree, capacity, lanes, 0.6, 1e-6);
    }
    const batch = allocateShared('a batch', layout.bytes, 64, 1);
    this.rows = rows;
    this.bytes = layout.bytes;
    this.out = new Uint8Array(batch.memory, batch.offset, layout.bytes);
    this.#ids = new Float64Array(
      batch.memory,
      batch.offset + layout.columns.find(({ key }) => key === 'ids')!.at,
      rows,
    );
    this.#view = lanesAddon().openView(lanesAddon().openLanes(memory), rule, columns, tree);
    this.#memory = [memory, tree];
  }

  /** Draws and makes one batch. Returns the ids of its steps. */
  make(seed: number): Float64Array {
    if (lanesAddon().sampleView(this.#view, seed, this.rows, this.out, 0.4, 0) < 0)
      throw new Error('nothing to draw');
    return this.#ids;
  }
  update(ids: Float64Array, priorities: Float32Array): void {
    lanesAddon().updateTree(this.#view, ids, priorities, ids.length);
  }
  /** Returns the ids of all drawable steps. */
  all(): Float64Array {
    const ids = new Float64Array(lanesAddon().viewCount(this.#view));
    lanesAddon().viewCount(this.#view, ids);
    return ids;
  }
  /** Memory to which only native code points. This keeps it alive. */
  get kept(): readonly unknown[] {
    return this.#memory;
  }
}
