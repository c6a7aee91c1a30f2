/**
 * Runs ONNX models with another project's runtime, as WebAssembly on the calling thread, and checks
 * them with ONNX's own checker.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { env, InferenceSession, Tensor } from 'onnxruntime-web';
import { Random } from '../../src/index.ts';

env.wasm.numThreads = 1;
// Hides warnings. A missing kernel for a type is still an error.
env.logLevel = 'error';

/** Debian's Python, which has onnx as a package. */
const PYTHON = '/usr/bin/python3';

/** Runs the model on `n` rows, with a mask if it has that input. Returns its outputs by name. */
export async function ran(
  model: Uint8Array,
  obs: Float32Array,
  n: number,
  mask?: Uint8Array,
): Promise<Record<string, { dims: readonly number[]; data: Float32Array | BigInt64Array }>> {
  const session = await InferenceSession.create(model, { executionProviders: ['wasm'] });
  try {
    expect(session.inputNames).to.deep.equal(mask ? ['obs', 'mask'] : ['obs']);
    const outputs = await session.run({
      obs: new Tensor('float32', obs, [n, obs.length / n]),
      ...(mask && { mask: new Tensor('bool', mask, [n, mask.length / n]) }),
    });
    return outputs as never;
  } finally {
    await session.release();
  }
}

/** Returns random float32 values within ±size. */
export function numbers(seed: number, length: number, size = 1): Float32Array {
  const random = new Random(seed);
  return Float32Array.from({ length }, () => random.between(-size, size));
}

/**
 * Asserts that the values differ by at most 1e-5 of the largest value, or of 1 if all values are
 * smaller.
 */
export function expectNear(got: ArrayLike<number>, want: ArrayLike<number>, what: string): void {
  expect(got.length, what).to.equal(want.length);
  const size = Math.max(1, ...Array.from(want, Math.abs));
  for (let i = 0; i < want.length; i++)
    expect(
      Math.abs((got[i] as number) - (want[i] as number)) / size,
      `${what}, element ${i}`,
    ).to.be.at.most(1e-5);
}

export const hasChecker = (): boolean => spawnSync(PYTHON, ['-c', 'import onnx']).status === 0;

const program = `
import sys, onnx
for name in sys.argv[1:]:
    model = onnx.load(name)
    onnx.checker.check_model(model, full_check=True)
    for output in onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output:
        shape = [each.dim_param or each.dim_value for each in output.type.tensor_type.shape.dim]
        print(output.name, output.type.tensor_type.elem_type, *shape)
`;

/**
 * Returns what ONNX's checker prints about the models, with the outputs that it infers. Throws if
 * it rejects a model.
 */
export function checked(models: Readonly<Record<string, Uint8Array>>): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-onnx-'));
  try {
    const files = Object.entries(models).map(([name, bytes]) => {
      const file = join(folder, `${name}.onnx`);
      writeFileSync(file, bytes);
      return file;
    });
    const { status, stdout, stderr } = spawnSync(PYTHON, ['-c', program, ...files], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(stderr);
    return stdout.trim().split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
