/**
 * Cases of the section `bookkeeping`: the leaves and the largest priority of a tree while steps are
 * added and priorities change. A row of the file is an episode of one step. It takes two places of
 * the only lane: its step and its final observation.
 */
import { prioritized, TrajectoryBuffer } from '../../src/index.ts';
import { columnsOf, Difference, relative, same, sameList } from './differences.ts';
import { type Normalized, normalizations, tolerance } from './prioritized.ts';

interface After {
  /** number of rows so far */
  written: number;
  /** by cell, which is a row's number modulo the capacity */
  leaves: number[];
  maxPriority: number;
  total: number;
}
type Op = After &
  (
    | { op: 'add'; count: number }
    | { op: 'update'; ids: number[]; priorities: number[]; stale: number[] }
    | {
        op: 'sample';
        seed: number;
        count: number;
        cells: number[];
        ids: number[];
        probabilities: number[];
        weights: { beta: number } & Normalized;
      }
  );

export interface BookkeepingCase {
  name: string;
  capacity: number;
  alpha: number;
  eps: number;
  ops: Op[];
}

const ofLeaves = relative(1e-14);

/** A sampler serves one buffer, so the script runs once for each way of normalizing. */
export function checkBookkeeping(golden: BookkeepingCase): void {
  for (const normalize of normalizations) checkScript(golden, normalize);
}

function checkScript(golden: BookkeepingCase, normalize: keyof Normalized): void {
  using buffer = TrajectoryBuffer.create({
    capacity: 2 * golden.capacity,
    lanes: 1,
    fields: { obs: { shape: [], observation: true } },
  });
  using writer = buffer.writer({ firstLane: 0, lanes: 1 });
  const view = buffer.transitions({ nStep: 1, gamma: 0.99 });
  const sampler = prioritized({ alpha: golden.alpha, epsilon: golden.eps, normalize });
  let written = 0;
  let bound = false;
  const add = () => {
    const [obs, finalObs] = [Float32Array.of(written), Float32Array.of(written + 0.5)];
    const ends = { terminated: Uint8Array.of(1), truncated: Uint8Array.of(0) };
    same('what add() took', writer.add({ obs, finalObs, rewards: Float32Array.of(0), ...ends }), 1);
    written++;
  };

  const isOverwritten = (row: number): boolean => {
    try {
      buffer.read([2 * row]);
      return false;
    } catch (error) {
      if (error instanceof RangeError) return true;
      throw error;
    }
  };

  for (const [i, op] of golden.ops.entries()) {
    const what = `${normalize}, op ${i} (${op.op})`;
    if (op.op === 'add') for (let n = 0; n < op.count; n++) add();
    // Nothing can be drawn before the first row, so there are no leaves and no ids to update.
    if (written === 0) continue;
    // The first draw binds the sampler to the buffer. A draw changes nothing.
    if (!bound) buffer.sample({ view, seed: 0, count: 1, sampler });
    bound = true;

    if (op.op === 'update') {
      const ids = Float64Array.from(op.ids, (id) => 2 * id);
      for (const id of op.ids)
        same(`${what}: whether row ${id} is stale`, isOverwritten(id), op.stale.includes(id));
      // The file lists signed TD errors. A priority is the absolute value of one.
      buffer.updatePriorities(ids, Float64Array.from(op.priorities, Math.abs));
    } else if (op.op === 'sample') {
      const { seed, count } = op;
      const got = columnsOf(buffer.sample({ view, seed, count, sampler, beta: op.weights.beta }));
      const ids = Array.from(got.ids ?? [], (id) => id / 2);
      sameList(`${what}: ids`, ids, op.ids);
      sameList(
        `${what}: cells`,
        ids.map((id) => id % golden.capacity),
        op.cells,
      );
      sameList(`${what}: probabilities`, got.probabilities, op.probabilities, { tolerance });
      sameList(`${what}: weights`, got.weights, op.weights[normalize], { tolerance });
    } else if (op.op !== 'add') {
      throw new Difference(`${what} is none of add, update and sample`);
    }
    same(`${what}: written`, written, op.written);
    // With `tree`, the leaves are checked after each added row. Otherwise they are checked only
    // after an update or a draw, which must have seen the new rows by itself.
    if (op.op === 'add' && normalize !== 'tree') continue;
    const { leaves, maxPriority, total } = sampler.inspect();
    const places = op.leaves.flatMap((leaf) => [leaf, 0]);
    sameList(`${what}: leaves`, leaves, places, {
      tolerance: ofLeaves,
      name: (p) => `[place ${p}]`,
    });
    same(`${what}: maxPriority`, maxPriority, op.maxPriority);
    same(`${what}: total`, total, op.total, tolerance);
  }
}
