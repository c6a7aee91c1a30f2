/**
 * Tests safetensors files: round trips of every dtype and shape, the bytes that the specification
 * requires, and the reference implementation's order of tensors. The reference implementation, a
 * Python package, is not available here, so files written by hand replace it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import {
  decodeSafetensors,
  encodeSafetensors,
  type NamedTensors,
  readSafetensors,
  writeSafetensors,
} from '../../src/entries/formats.ts';
import { DqnLearner, type LearnerState } from '../../src/entries/learner.ts';
import { openDevice } from '../../src/index.ts';
import { rejection } from '../rig/refusal.ts';
import { allDTypes, expectSame, inFolder, manyTensors, tensor } from './tensors.ts';

/** Builds a file by hand. */
function fileOf(header: string, data: Uint8Array = new Uint8Array()): Uint8Array {
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return new Uint8Array(Buffer.concat([length, text, data]));
}

const small: LearnerState = {
  w: { dtype: 'float32', shape: [2], data: Float32Array.of(1, -2) },
  b: { dtype: 'int16', shape: [], data: Int16Array.of(258) },
};
const header =
  '{"__metadata__":{"a":"ä","format":"pt"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},' +
  '"b":{"dtype":"I16","shape":[],"data_offsets":[8,10]}}';

describe('safetensors', () => {
  it('reading returns empty metadata when __metadata__ is null', () => {
    const { tensors, metadata } = decodeSafetensors(fileOf('{"__metadata__":null}'));
    expect([Object.keys(tensors), Object.keys(metadata)]).to.deep.equal([[], []]);
  });

  it('reading returns the tensors in `names`, even if other tensors have unsupported dtypes', () =>
    inFolder(
      async (folder) => {
        const text =
          '{"half":{"dtype":"F4","shape":[3],"data_offsets":[0,2]},"w":{"dtype":"F32","shape":[2],"data_offsets":[2,10]},' +
          '"quarter":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[10,13]},"b":{"dtype":"I16","shape":[],"data_offsets":[13,15]}}';
        const bytes = fileOf(text, Uint8Array.of(9, 9, 0, 0, 128, 63, 0, 0, 0, 192, 9, 9, 9, 2, 1));
        const path = join(folder, 'x.safetensors');
        writeFileSync(path, bytes);
        const { w, b } = small;
        const read = [
          async (names?: readonly string[]) =>
            decodeSafetensors(bytes, { ...(names && { names }) }),
          (names?: readonly string[]) => readSafetensors(path, { ...(names && { names }) }),
        ];
        for (const reading of read) {
          expectSame((await reading(['w', 'b'])).tensors, { w: w!, b: b! });
          expectSame((await reading(['b'])).tensors, { b: b! });
          expectSame((await reading([])).tensors, {});
          for (const [names, name, dtype] of [
            [undefined, 'half', 'F4'],
            [['w', 'quarter'], 'quarter', 'F8_E4M3'],
          ] as const) {
            const error = await rejection(reading(names));
            expect(error.code).to.equal('ERR_HOTSLOT_ARGUMENT');
            expect(error.message).to.include(
              `'${name}': Hotslot has no '${dtype}': save it as one of U64, `,
            );
            expect(error.message).to.match(/, or read the other tensors with names: \[…\]$/);
          }
          const none = await rejection(reading(['w', 'z']));
          expect([none.code, none.message.replace(/^.*? has/, 'has')]).to.deep.equal([
            'ERR_HOTSLOT_RANGE',
            "has no 'z'; it has half, w, quarter, b",
          ]);
          expect((await rejection(() => reading('w' as never))).message).to.include(
            'names must be an array of names',
          );
        }
        // A file that breaks a rule of the format is rejected even if the broken tensor is not
        // requested.
        const gap = fileOf(text.replace('[10,13]', '[11,13]'), new Uint8Array(15));
        expect((await rejection(() => decodeSafetensors(gap, { names: ['w'] }))).message).to.match(
          /'quarter' begins at byte 11 of the data: no tensor has bytes 10 to 11/,
        );
      },
      ['x.safetensors'],
    ));

  it('a small file is encoded and decoded byte by byte', () => {
    const padded = header + ' '.repeat((8 - (Buffer.byteLength(header) % 8)) % 8);
    const bytes = fileOf(padded, Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 192, 2, 1));
    expect(Buffer.byteLength(padded)).to.equal(152);
    expect(
      Buffer.from(encodeSafetensors(small, { format: 'pt', a: 'ä' })).toString('latin1'),
    ).to.equal(Buffer.from(bytes).toString('latin1'));
    const { tensors, metadata } = decodeSafetensors(bytes);
    expectSame(tensors, small);
    expect({ ...metadata }).to.deep.equal({ a: 'ä', format: 'pt' });
  });

  it('every dtype and shape round-trips in memory and through a file', () =>
    inFolder(
      async (folder) => {
        const tensors = manyTensors();
        const bytes = encodeSafetensors(tensors, { note: 'x' });
        expectSame(decodeSafetensors(bytes).tensors, tensors);
        const path = join(folder, 'all.safetensors');
        await writeSafetensors(path, tensors, { note: 'x' });
        expect(Buffer.compare(readFileSync(path), bytes)).to.equal(0);
        const found = await readSafetensors(pathToFileURL(path));
        expectSame(found.tensors, tensors);
        expect({ ...found.metadata }).to.deep.equal({ note: 'x' });
      },
      ['all.safetensors'],
    ));

  it('a file without tensors is encoded and decoded', () => {
    expect(Buffer.from(encodeSafetensors({})).toString()).to.equal('\x08\0\0\0\0\0\0\0{}      ');
    expectSame(decodeSafetensors(fileOf('{}')).tensors, {});
  });

  it('writing orders tensors by dtype, widest first, then by name in UTF-8 order', () => {
    // In UTF-16, the second of the last two names would come first.
    const names = ['b', 'a', '\u{1f600}', '\uffee'];
    const tensors: NamedTensors = Object.fromEntries(
      names.flatMap((name) => allDTypes.map((dtype) => [`${name}.${dtype}`, tensor(dtype, [3])])),
    );
    const turned = Object.fromEntries(Object.entries(tensors).reverse());
    const bytes = encodeSafetensors(tensors);
    expect(Buffer.compare(encodeSafetensors(turned), bytes)).to.equal(0);
    const found = Object.keys(decodeSafetensors(bytes).tensors);
    expect(found.slice(0, 4)).to.deep.equal([
      'a.uint64',
      'b.uint64',
      '\uffee.uint64',
      '\u{1f600}.uint64',
    ]);
    const order = found.filter((name) => name.startsWith('a.')).map((name) => name.slice(2));
    expect(order.join(' ')).to.equal(
      'uint64 int64 float64 float32 uint32 int32 bfloat16 float16 uint16 int16 int8 uint8 bool',
    );
    // In such a file, every tensor's offset is a multiple of its element size.
    expect(Number(new DataView(bytes.buffer).getBigUint64(0, true)) % 8).to.equal(0);
  });

  it('reading accepts blanks, tensors in any order and unaligned data of other writers', () => {
    const text =
      ' \n"y" : {"data_offsets":[1,9], "shape":[1,1], "dtype":"F64"}, "x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},';
    const odd = `{${text}"none":{"dtype":"I64","shape":[0,9],"data_offsets":[1,1]}}\t `;
    const data = new Uint8Array([7, ...new Uint8Array(Float64Array.of(-0.5).buffer)]);
    for (const offset of [0, 1, 2, 3]) {
      const file = fileOf(odd + ' '.repeat(offset), data);
      // The file's bytes themselves begin at an odd offset.
      const within = new Uint8Array(file.length + 3);
      within.set(file, 3);
      const { tensors } = decodeSafetensors(within.subarray(3));
      expect(Object.keys(tensors)).to.deep.equal(['x', 'none', 'y']);
      expect([tensors.x?.data[0], tensors.y?.data[0], tensors.none?.shape]).to.deep.equal([
        7,
        -0.5,
        [0, 9],
      ]);
      expect(tensors.x?.data.buffer).to.not.equal(within.buffer);
    }
  });

  it('names such as __proto__ and constructor round-trip', () => {
    const names = ['__proto__', 'constructor', 'toString', '', '"\\\n\u{1f600}'];
    const tensors = Object.fromEntries(names.map((name, i) => [name, tensor('int8', [2], i)]));
    expect(Object.keys(tensors)).to.include('__proto__');
    const metadata = JSON.parse('{"__proto__":"p","constructor":"c"}') as Record<string, string>;
    const found = decodeSafetensors(encodeSafetensors(tensors, metadata));
    expectSame(found.tensors, tensors);
    expect(Object.entries(found.metadata)).to.deep.equal([
      ['__proto__', 'p'],
      ['constructor', 'c'],
    ]);
    expect((found.tensors as Record<string, unknown>).hasOwnProperty).to.equal(undefined);
  });

  it('writing accepts data in a part of other memory or in shared memory', () => {
    const all = Float32Array.from({ length: 8 }, (_, i) => i);
    const shared = new Int32Array(new SharedArrayBuffer(8));
    shared.set([5, 6]);
    const tensors: NamedTensors = {
      part: { dtype: 'float32', shape: [3], data: all.subarray(2, 5) },
      shared: { dtype: 'int32', shape: [2], data: shared },
    };
    expectSame(decodeSafetensors(encodeSafetensors(tensors)).tensors, tensors);
  });

  it('reading accepts a header of 4 MiB', () => {
    const long = fileOf(`{"__metadata__":{"x":"${'y'.repeat(1 << 22)}"}}`);
    expect(decodeSafetensors(long).metadata.x).to.have.length(1 << 22);
  });

  it('a learner restores its state from a file', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'w.safetensors');
      writeFileSync(path, 'what was there before');
      using device = openDevice('host:0');
      const options = { obsDim: 2, actions: 2, hidden: [3], batchSize: 1 };
      const first = new DqnLearner(device, options);
      const second = new DqnLearner(device, { ...options, seed: 7 });
      const state = await first.state();
      await writeSafetensors(path, state);
      second.loadState((await readSafetensors(path)).tensors);
      expectSame(await second.state(), state);
      first.close();
      second.close();
    }));
});
