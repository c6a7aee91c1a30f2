/** The benchmark `torch` with products that keep 10 bits of mantissa, on both sides. */
import type { Benchmark } from './harness.ts';
import { run as runTorch } from './torch.ts';

export const run: Benchmark = async (report, options) => {
  if (process.env.NVIDIA_TF32_OVERRIDE !== '1')
    throw new Error('torch-tf32: cuBLAS reads NVIDIA_TF32_OVERRIDE when it starts: run with NVIDIA_TF32_OVERRIDE=1');
  await runTorch(report, options);
};
