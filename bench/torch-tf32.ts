/**
 * The benchmark `torch` with TF32 products, which keep 10 bits of mantissa, on both sides. The
 * runner requires NVIDIA_TF32_OVERRIDE=1.
 */
export { run } from './torch.ts';
