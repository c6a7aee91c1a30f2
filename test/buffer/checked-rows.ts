/**
 * Rows with a checksum. `id` has the writer and the row's sequence number, and `body` follows from
 * both.
 */
import type { FieldSpec } from '../../src/store/rows/fields.ts';

const BODY = 1021;
/** 32-bit words of a packed row: writer, sequence number, body */
export const WORDS = 2 + BODY;

/**
 * A row has 4,092 bytes. add() copies it in several pieces, so a reader can meet a partly written
 * row, and rows share cache lines.
 */
export const fields: Record<string, FieldSpec> = {
  id: { shape: [2], dtype: 'uint32' },
  body: { shape: [BODY], dtype: 'uint32' },
};

function word(writer: number, sequence: number, k: number): number {
  return Math.imul(writer * 7919 + sequence * 31 + k, 2654435761) >>> 0;
}

/** Returns `count` rows of `writer` for add(), from sequence number `first`. Both count from 1. */
export function checkedRows(
  writer: number,
  first: number,
  count: number,
): { id: Uint32Array; body: Uint32Array } {
  const id = new Uint32Array(2 * count);
  const body = new Uint32Array(BODY * count);
  for (let r = 0; r < count; r++) {
    id.set([writer, first + r], 2 * r);
    for (let k = 0; k < BODY; k++) body[r * BODY + k] = word(writer, first + r, k);
  }
  return { id, body };
}

const known = new Map<number, Buffer>();

/**
 * Returns the whole row, which is computed only once. If checking took longer than gathering, few
 * gathers would overlap a write.
 */
function wholeRow(writer: number, sequence: number): Buffer {
  const key = writer * 2 ** 20 + sequence;
  let row = known.get(key);
  if (row === undefined) {
    const { id, body } = checkedRows(writer, sequence, 1);
    row = Buffer.concat([Buffer.from(id.buffer), Buffer.from(body.buffer)]);
    known.set(key, row);
  }
  return row;
}

/**
 * Returns what is wrong with packed rows, or null. A row is wrong if it was never written or mixes
 * two rows.
 */
export function fault(rows: Uint32Array): string | null {
  const bytes = Buffer.from(rows.buffer, rows.byteOffset, rows.byteLength);
  for (let start = 0; start < rows.length; start += WORDS) {
    const writer = rows[start]!;
    const sequence = rows[start + 1]!;
    if (writer === 0 || sequence === 0) return `row ${start / WORDS} was never written`;
    if (writer > 100 || sequence > 10_000)
      return `row ${start / WORDS} is nobody's (${writer}, ${sequence})`;
    if (wholeRow(writer, sequence).compare(bytes, start * 4, (start + WORDS) * 4) !== 0) {
      return `row ${start / WORDS} (writer ${writer}, ${sequence}) is torn`;
    }
  }
  return null;
}
