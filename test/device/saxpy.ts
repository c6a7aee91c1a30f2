/** A kernel source with two kernels, as a program would pass it to loadKernels(). */
export const saxpySource = `
GK_KERNEL saxpy(GK_G float* y, GK_G const float* x, gk_i64 n, gk_real a) {
  GK_EACH(i, n) y[i] = a * x[i] + y[i];
}
GK_KERNEL tally(GK_G gk_i32* counts, GK_G const gk_u8* bytes, gk_i64 rows, gk_i64 columns) {
  GK_EACH(i, rows) {
    gk_i32 sum = 0;
    for (gk_i64 j = 0; j < columns; ++j) sum += bytes[i * columns + j];
    counts[i] = sum;
  }
}
`;
