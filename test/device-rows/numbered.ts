/** Rows whose words follow from their numbers. */
export const FIELDS = { x: { shape: [] }, y: { shape: [] }, more: { shape: [14] } } as const;

/** Rows [from, from + n): x is the number, y its negative, and 14 words more say it too. */
export function numbered(from: number, n: number) {
  const id = Float32Array.from({ length: n }, (_, i) => from + i);
  const more = Float32Array.from({ length: 14 * n }, (_, i) => from + Math.floor(i / 14));
  return { x: id, y: id.map((value) => -value), more };
}
