/**
 * Reads files with flipped bits, inserted bytes and cut ends. Reading either returns tensors that
 * consist of the file's data, or throws one of Hotslot's errors. Mocha's time limit fails a read
 * that hangs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { expect } from 'chai';
import { Random } from '../../src/base/random.ts';
import {
  decodeNpy,
  decodeSafetensors,
  encodeNpy,
  encodeSafetensors,
  type NamedTensors,
  readNpz,
  readSafetensors,
  writeNpz,
} from '../../src/entries/formats.ts';
import { itLonger, setting } from '../rig/setting.ts';
import { bytesOf, expectSame, inFolder, tensor } from './tensors.ts';

const rounds = setting({ short: 300, all: 4_000, long: 300_000 });
const tensors: NamedTensors = {
  w: tensor('float32', [4, 3], 1),
  b: tensor('bool', [5], 2),
  none: tensor('int64', [0, 2], 3),
  scalar: tensor('float64', [], 4),
};

/**
 * Makes one to four changes. A change flips a bit, replaces a byte or character, removes or repeats
 * a piece, or cuts the end.
 */
function changed(file: Uint8Array, random: Random, most = file.length): Uint8Array {
  let bytes = Buffer.from(file);
  for (let left = 1 + random.below(4); left > 0 && bytes.length > 0; left--) {
    const at = random.below(Math.min(most, bytes.length));
    const to = Math.min(bytes.length, at + 1 + random.below(8));
    const kind = random.below(12);
    if (kind < 5) bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << random.below(8)), at);
    else if (kind < 7) bytes.writeUInt8([0, 255, 0x7f, 0x80][random.below(4)] as number, at);
    else if (kind < 9)
      bytes.writeUInt8('0123456789[]{}",:\\ eE-.'.charCodeAt(random.below(23)), at);
    else if (kind === 9) bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
    else if (kind === 10) bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
    else bytes = bytes.subarray(0, at);
  }
  return new Uint8Array(bytes);
}

/** Returns what `read` returns, or undefined if it throws one of Hotslot's errors. */
async function outcome<T>(read: () => T | Promise<T>, file: Uint8Array): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (/^ERR_HOTSLOT_(RANGE|ARGUMENT)$/.test(code ?? '') && message.length < 600) return undefined;
    throw new Error(`of ${Buffer.from(file).toString('base64')}`, { cause: error });
  }
}

describe('tensor files with random faults', function () {
  this.timeout(600_000);

  itLonger('decodeSafetensors() returns tensors of the given bytes or throws', async () => {
    const random = new Random(1);
    const file = encodeSafetensors(tensors, { note: 'x' });
    const header = file.length - 100;
    const counts = { read: 0, refused: 0 };
    for (let round = 0; round < rounds; round++) {
      const bytes = changed(file, random, round % 2 ? header : undefined);
      const found = await outcome(() => decodeSafetensors(bytes), bytes);
      counts[found ? 'read' : 'refused']++;
      // The tensors contain all of the file's data. Encoding and decoding them again returns the
      // same tensors.
      if (found === undefined) continue;
      expectSame(
        decodeSafetensors(encodeSafetensors(found.tensors, found.metadata)).tensors,
        found.tensors,
      );
      // A JavaScript object lists integer names first, so their order in the file is unknown.
      if (Object.keys(found.tensors).some((name) => /^\d+$/.test(name))) continue;
      const data = Buffer.concat(Object.values(found.tensors).map((each) => bytesOf(each.data)));
      expect(data.equals(bytes.subarray(bytes.length - data.length))).to.equal(true);
    }
    expect(counts.read).to.be.above(rounds / 50);
    expect(counts.refused).to.be.above(rounds / 4);
  });

  itLonger(
    'decodeSafetensors() and readSafetensors() reject a file that is truncated anywhere',
    () =>
      inFolder(async (folder) => {
        const path = join(folder, 'x');
        const file = encodeSafetensors(tensors);
        for (let length = 0; length < file.length; length++) {
          const bytes = file.subarray(0, length);
          writeFileSync(path, bytes);
          expect(await outcome(() => decodeSafetensors(bytes), bytes)).to.equal(undefined);
          expect(await outcome(() => readSafetensors(path), bytes)).to.equal(undefined);
        }
      }),
  );

  itLonger('decodeNpy() returns a tensor that can be encoded again or throws', async () => {
    const random = new Random(2);
    const file = encodeNpy(tensor('float32', [4, 3]));
    let read = 0;
    for (let round = 0; round < rounds; round++) {
      const bytes = changed(file, random, round % 2 ? 80 : undefined);
      const found = await outcome(() => decodeNpy(bytes), bytes);
      if (found === undefined) continue;
      read++;
      expectSame({ x: decodeNpy(encodeNpy(found)) }, { x: found });
    }
    expect(read).to.be.within(rounds / 50, rounds / 1.5);
  });

  itLonger('readNpz() returns the written tensors or rejects', () =>
    inFolder(async (folder) => {
      const random = new Random(3);
      const path = join(folder, 'x.npz');
      await writeNpz(path, tensors);
      const stored = readFileSync(path);
      let read = 0;
      for (let round = 0; round < rounds / 8; round++) {
        const bytes = changed(stored, random);
        writeFileSync(path, bytes);
        const found = await outcome(() => readNpz(path), bytes);
        if (found === undefined) continue;
        read++;
        // The checksums protect only the contents. A name may have changed, and an entry may be
        // missing from the directory.
        const given = new Map(Object.values(tensors).map((each) => [`${each.dtype}`, each]));
        for (const each of Object.values(found))
          expectSame({ x: each }, { x: given.get(each.dtype) as (typeof tensors)[string] });
      }
      expect(read).to.be.within(1, rounds / 16);
    }),
  );

  itLonger('readNpz() returns the written tensors or rejects when deflated bytes are damaged', () =>
    inFolder(async (folder) => {
      const random = new Random(4);
      const path = join(folder, 'x.npz');
      const content = Buffer.from(encodeNpy(tensor('float32', [4, 3])));
      await writeNpz(path, { x: tensor('float32', [4, 3]) });
      const stored = readFileSync(path);
      const packed = deflateRawSync(content);
      // Replaces the file's entry by its deflated form. Method and packed size are stored twice,
      // and the directory's offset once.
      const head = Buffer.from(stored.subarray(0, 35));
      const tail = Buffer.from(stored.subarray(35 + content.length));
      for (const [part, at] of [
        [head, 8],
        [tail, 10],
      ] as const) {
        part.writeUInt16LE(8, at);
        part.writeUInt32LE(packed.length, at + 10);
      }
      tail.writeUInt32LE(35 + packed.length, tail.length - 6);
      writeFileSync(path, Buffer.concat([head, packed, tail]));
      expectSame(await readNpz(path), { x: tensor('float32', [4, 3]) });
      for (let round = 0; round < rounds / 10; round++) {
        const bytes = Buffer.concat([head, changed(packed, random), tail]);
        const same = bytes.length === head.length + packed.length + tail.length;
        writeFileSync(path, bytes);
        const found = await outcome(() => readNpz(path), bytes);
        if (found !== undefined) expectSame(found, { x: tensor('float32', [4, 3]) });
        if (!same) expect(found).to.equal(undefined);
      }
    }),
  );
});
