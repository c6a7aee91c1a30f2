/** Tests kernel launches by name, and the checks of their arguments. */
import { expect } from 'chai';
import { nativeKernels } from '../../../src/device/native.ts';
import type { Device, Tensor } from '../../../src/index.ts';
import { launchAnything } from '../../rig/launch.ts';
import { refusal } from '../../rig/refusal.ts';
import { tensorOf, valuesOf } from '../../rig/tensors.ts';

export function kernelContract(device: () => Device): void {
  it('are launched by name on views of tensors', async () => {
    using y = await tensorOf(device(), [1, 2, 3, 4, 5]);
    using x = await tensorOf(device(), [10, 20, 30, 40, 50]);
    device().currentStream.launch('axpby', {
      tensors: [y.view({ shape: [2], offset: 1 }), x.view({ shape: [2], offset: 3 })],
      wholes: [2],
      reals: [0.5, 2],
    });
    expect(await valuesOf(y)).to.deep.equal([1, 24, 31, 4, 5]);
  });

  it('launch() throws for an unknown name and lists the known kernels', () => {
    const error = refusal(() => launchAnything(device().currentStream, 'axpy', {}));
    expect(error.code).to.equal('ERR_HOTSLOT_ARGUMENT');
    expect(error.message).to.include("'axpy'");
    for (const { name } of nativeKernels().kernels()) expect(error.message).to.include(name);
  });

  it('launch() throws for wrong argument counts, with the expected and the given count', () => {
    using y = device().allocate({ shape: [2] });
    const launch = (args: object) =>
      refusal(() => launchAnything(device().currentStream, 'axpby', args)).message;
    expect(launch({ tensors: [y], wholes: [2], reals: [1, 1] })).to.include(
      'takes 2 tensors, got 1',
    );
    expect(launch({ tensors: [y, y], reals: [1, 1] })).to.include('takes 1 whole numbers, got 0');
    expect(launch({ tensors: [y, y], wholes: [2], reals: [1] })).to.include('takes 2 reals, got 1');
  });

  it('launch() throws a TypeError for a tensor of another dtype', () => {
    using y = device().allocate({ shape: [4], dtype: 'int32' });
    using x = device().allocate({ shape: [4] });
    const error = refusal(() =>
      device().currentStream.launch('axpby', { tensors: [y, x], wholes: [4], reals: [1, 1] }),
    );
    expect(error).to.be.instanceOf(TypeError);
    expect(error.message).to.include("'axpby': tensor 0 must be float32");
  });

  it('launch() throws for a tensor that begins between two elements', () => {
    using bytes = device().allocate({ shape: [64], dtype: 'uint8' });
    using table = device().allocate({ shape: [22], dtype: 'int64' });
    const part = bytes.view({ shape: [16], offset: 12 });
    const tensors = [part, table, ...Array.from({ length: 10 }, () => part)];
    const wholes = [1, 2, ...new Array<number>(10).fill(0)];
    const error = refusal(() =>
      launchAnything(device().currentStream, 'halo64', { tensors, wholes }),
    );
    expect([error.code, error.message]).to.deep.equal([
      'ERR_HOTSLOT_RANGE',
      "kernel 'halo64': tensor 0 begins at byte 12, it must be a multiple of 8",
    ]);
  });

  it('launch() throws for a tensor that begins between two copy units, on every device family', () => {
    using memory = device().allocate({ shape: [64], dtype: 'uint32' });
    using fine = device().allocate({ shape: [64], dtype: 'uint32' });
    using places = device().allocate({ shape: [8], dtype: 'int32' });
    const between = (bytes: number) => memory.view({ shape: [32], offset: bytes / 4 });
    const launch = (kernel: string, tensors: Tensor[], wholes: number[]) =>
      launchAnything(device().currentStream, kernel, { tensors, wholes });
    const cases: [kernel: string, tensors: Tensor[], moved: number, wholes: number[]][] = [
      ['gather_places', [fine, fine, places], 2, [2, 8, 2, 0]],
      ['put_places', [fine, fine, places], 2, [2, 8, 2, 0]],
    ];
    for (const [kernel, tensors, moved, wholes] of cases)
      for (let i = 0; i < moved; i++)
        for (const bytes of [4, 8, 12])
          expect(
            refusal(() => launch(kernel, tensors.with(i, between(bytes)), wholes)).message,
          ).to.equal(
            `kernel '${kernel}': tensor ${i} begins at byte ${bytes}, it must be a multiple of 16`,
          );
    const part = (offset: number) => fine.view({ shape: [32], dtype: 'uint8', offset });
    for (const unit of [16, 4, 1]) {
      const wholes = [2, 16, 0, 16, 2, 2, unit, 0];
      const given: Tensor[] = [part(0), part(32), part(64), places];
      for (let i = 0; i < 3; i++)
        for (const at of [1, 4, 8]) {
          const tensors = given.with(i, part(128 + at));
          if (at % unit === 0) launch('gather_fields', tensors, wholes);
          else
            expect(refusal(() => launch('gather_fields', tensors, wholes)).message).to.equal(
              `kernel 'gather_fields': tensor ${i} begins at byte ${128 + at}, it must be a multiple of ${unit}`,
            );
        }
    }
  });

  it('launch() throws if the strides of a tensor contradict the given row sizes and strides', () => {
    using table = device().allocate({ shape: [4, 5] });
    using out = device().allocate({ shape: [12] });
    using cubes = device().allocate({ shape: [4, 3, 2] });
    const stream = device().currentStream;
    const columns = table.view({ shape: [4, 3], strides: [5, 1] });
    const copy = (from: Tensor, wholes: readonly [number, number, number, number]) => () =>
      stream.launch('copy2d', { tensors: [out, from], wholes });
    for (const [from, wholes, said] of [
      [
        columns,
        [4, 3, 3, 3],
        "tensor 1's rows are 20 bytes apart, but x_stride is 3 elements of 4: pass the tensor's own strides[0]",
      ],
      [table, [4, 3, 3, 3], "tensor 1's rows are 20 bytes apart, but x_stride is 3"],
      [columns, [3, 4, 4, 5], "tensor 1's rows have 12 contiguous bytes, 16 are needed"],
      [columns, [1, 5, 5, 5], 'tensor 1 has 12 contiguous bytes, 20 are needed: it is strided'],
      [
        table.view({ shape: [4], strides: [5] }),
        [4, 1, 1, 1],
        "tensor 1's rows are 20 bytes apart, but x_stride is 1",
      ],
      [
        table.view({ shape: [4, 3], strides: [1, 4] }),
        [4, 3, 3, 3],
        'tensor 1 has rows at different distances',
      ],
      [
        cubes.view({ shape: [2, 2, 2], strides: [12, 5, 1] }),
        [4, 2, 2, 5],
        'tensor 1 has rows at different distances',
      ],
    ] as const)
      expect(refusal(copy(from, wholes)).message).to.include(`kernel 'copy2d': ${said}`);
    using flat = device().allocate({ shape: [4] });
    const add = (x: Tensor) => () =>
      stream.launch('axpby', { tensors: [flat, x], wholes: [4], reals: [1, 0] });
    const strided = table.view({ shape: [4], strides: [5] });
    expect(refusal(add(strided)).message).to.include(
      'tensor 1 has 4 contiguous bytes, 16 are needed: it is strided',
    );
    // Launches that fit the memory, and launches with contiguous tensors, whose elements may be
    // read with any row length.
    for (const launch of [
      copy(columns, [4, 3, 3, 5]),
      copy(columns, [1, 3, 3, 3]),
      copy(table.view({ shape: [4, 1], strides: [5, 1] }), [4, 1, 1, 5]),
      copy(cubes, [4, 3, 3, 6]),
      copy(cubes.view({ shape: [2, 3, 2], strides: [12, 2, 1] }), [2, 6, 6, 12]),
      copy(table.view({ shape: [20] }), [4, 3, 3, 4]),
      // Minibatches of a batch. Their rows have one constant distance, so they count as one list of
      // rows.
      copy(cubes.view({ shape: [2, 3, 2], strides: [12, 4, 1] }), [6, 2, 2, 4]),
      add(table),
    ])
      expect(launch).to.not.throw();
  });

  it('launch() throws for tensors that are too small and numbers out of range, with the values', () => {
    using y = device().allocate({ shape: [4] });
    using x = device().allocate({ shape: [3] });
    const launch = (wholes: number[], reals: number[]) =>
      refusal(() =>
        launchAnything(device().currentStream, 'axpby', { tensors: [y, x], wholes, reals }),
      );
    const small = launch([4], [1, 1]);
    expect([small.code, small.message]).to.deep.equal([
      'ERR_HOTSLOT_RANGE',
      "kernel 'axpby': tensor 1 covers 12 bytes, 16 are needed",
    ]);
    expect(launch([0], [1, 1]).message).to.include('got 0');
    expect(launch([2 ** 52], [1, 1]).message).to.include('are needed');
    expect(launch([3], [Number.NaN, 1]).message).to.include('nan');
  });
}
