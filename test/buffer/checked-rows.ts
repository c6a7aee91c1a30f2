/**
 * Rows that carry their own checksum: who wrote them, which they are, and a body that follows from
 * both.
 */
import type { FieldSpec } from '../../src/store/rows/fields.ts';

const BODY = 1021;
/** 32-bit words of a packed row: writer, sequence, body */
export const WORDS = 2 + BODY;

/**
 * 4,092 bytes: several copies per row, long enough to be overtaken, and rows that cut cache lines.
 */
export const fields: Record<string, FieldSpec> = {
  id: { shape: [2], dtype: 'uint32' },
  body: { shape: [BODY], dtype: 'uint32' },
};

function word(writer: number, sequence: number, k: number): number {
  return Math.imul(writer * 7919 + sequence * 31 + k, 2654435761) >>> 0;
}

/** Rows `first` … of `writer` (both from 1), for add(). */
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
 * The whole row, made once: checking must cost less than gathering, or hardly a gather meets a
 * writer.
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

/** What is wrong with the packed rows, or null: one was never written, or holds words of two. */
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
