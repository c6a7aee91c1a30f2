/**
 * The benchmark `torch` with products that keep 10 bits of mantissa, on both sides:
 * NVIDIA_TF32_OVERRIDE=1, which the runner asks for.
 */
export { run } from './torch.ts';
