/** Encodes steps as packed rows by hand, and compares buffers byte by byte. */
import { expect } from 'chai';
import type { TrajectoryBuffer } from '../../src/index.ts';
import { internalsOfTrajectories } from '../../src/store/lanes/trajectory-buffer.ts';
import type { Dice, History } from './history.ts';

export interface Row {
  lane: number;
  kind: number;
  reward: number;
  /** values by field. The bytes of omitted fields are arbitrary */
  readonly values: Readonly<Record<string, ArrayBufferView>>;
}

/** Encodes rows in the format of addPacked(): u16 lane, u16 kind, f32 reward, then the place. */
export function encode(
  buffer: { readonly layout: TrajectoryBuffer['layout'] },
  rows: readonly Row[],
): Uint8Array {
  const { fields, placeBytes } = buffer.layout;
  const bytes = new Uint8Array(rows.length * (8 + placeBytes));
  const view = new DataView(bytes.buffer);
  rows.forEach(({ lane, kind, reward, values }, i) => {
    const at = i * (8 + placeBytes);
    view.setUint16(at, lane, true);
    view.setUint16(at + 2, kind, true);
    view.setFloat32(at + 4, reward, true);
    for (const { key, offset, bytes: length } of fields) {
      const to = bytes.subarray(at + 8 + offset, at + 8 + offset + length);
      const value = values[key];
      if (value) to.set(new Uint8Array(value.buffer, value.byteOffset, length));
      else to.fill(0xee);
    }
  });
  return bytes;
}

/** Returns the place of an id as a row. `lane` is the lane's number within its writer. */
export function rowOf(buffer: TrajectoryBuffer, id: number, lane: number): Row {
  const read = buffer.read([id]);
  const final = read.final[0] === 1;
  const kind = final
    ? 4
    : read.terminated[0]! + 2 * read.truncated[0]! + (read.episodeStep[0] === 0 ? 8 : 0);
  const kept = buffer.layout.fields.filter(({ observation }) => observation || !final);
  const values = Object.fromEntries(
    kept.map(({ key }) => [key, read[key] as unknown as ArrayBufferView]),
  );
  return { lane, kind, reward: read.rewards[0]!, values };
}

/**
 * The steps that a history has added and a test has not yet taken, by lane. A step and its final
 * observation form a group.
 */
export class Pending {
  readonly #history: History;
  readonly #lanes: Row[][][];
  constructor(history: History) {
    this.#history = history;
    this.#lanes = Array.from({ length: history.lanes }, () => []);
  }
  /** Makes one add of the history. */
  add(): void {
    const { lanes, buffer } = this.#history;
    const next = () => this.#lanes.map((_, lane) => this.#history.nextId(lane));
    const before = next();
    this.#history.add();
    for (const [lane, to] of next().entries()) {
      const group: Row[] = [];
      for (let id = before[lane]!; id < to; id += lanes)
        group.push(rowOf(buffer as never, id, lane));
      if (group.length > 0) this.#lanes[lane]!.push(group);
    }
  }
  /**
   * Takes up to `most` rows of the lanes [first, first + count). Chooses the order of lanes at
   * random.
   */
  take(dice: Dice, first: number, count: number, most: number): Row[] {
    const rows: Row[] = [];
    for (;;) {
      const lanes = this.#lanes.slice(first, first + count).filter((groups) => groups.length > 0);
      if (lanes.length === 0 || rows.length >= most) return rows;
      // Often takes several groups of one lane in succession.
      const groups = dice.of(lanes);
      for (let left = 1 + dice.below(4); left > 0 && groups.length > 0; left--)
        rows.push(...groups.shift()!.map((row) => ({ ...row, lane: row.lane - first })));
    }
  }
}

/** Returns the states of all lanes and the bytes of every stored place. */
export function bytesOf(buffer: TrajectoryBuffer<never>): { states: number[]; places: Buffer[] } {
  const { ledger } = internalsOfTrajectories(buffer as never);
  const states = ledger.states();
  const places = Array.from({ length: ledger.lanes }, (_, lane) => {
    const [from, to] = states.subarray(lane * ledger.numbers) as unknown as [number, number];
    const out = new Uint8Array((to - from) * ledger.placeBytes);
    expect(ledger.read(lane, from, to - from, out)).to.be.at.most(from);
    return Buffer.from(out);
  });
  return { states: [...new BigUint64Array(states.buffer)].map(Number), places };
}

/** Checks that lanes, counts and bytes of two buffers are equal. */
export function sameBuffers(what: string, got: object, want: object): void {
  const [one, other] = [bytesOf(got as never), bytesOf(want as never)];
  expect(one.states, `${what}: states of lanes`).to.deep.equal(other.states);
  const lane = one.places.findIndex((places, i) => !places.equals(other.places[i]!));
  expect(lane, `${what}: a lane whose places differ`).to.equal(-1);
}

/**
 * Returns the steps [from, from + count) of a numbered history as rows of two lanes. Each row holds
 * its number.
 */
export function numbered(
  buffer: TrajectoryBuffer<never>,
  from: number,
  count: number,
): { bytes: Uint8Array; rows: number } {
  const rows: Row[] = [];
  for (let n = from; n < from + count; n++) {
    const [lane, kind] = [n % 3 === 0 ? 1 : 0, n % 7 === 0 ? 1 + (n % 3) : 0];
    const row = (of: number, value: number) => ({
      lane,
      kind: of,
      reward: of === 4 ? 0 : n,
      values: { number: Float64Array.of(value) },
    });
    rows.push(row(kind, n), ...(kind > 0 ? [row(4, -n)] : []));
  }
  return { bytes: encode(buffer as never, rows), rows: rows.length };
}
