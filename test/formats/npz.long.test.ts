/**
 * Tests npz files: round trips of tensors, zip64, and zip files that are damaged or forged.
 * numpy.long.test.ts uses numpy itself.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync, crc32 as zlibsCrc32 } from 'node:zlib';
import { expect } from 'chai';
import { crc32ByTable } from '../../src/base/arrays/crc32.ts';
import { type Reading, reading } from '../../src/base/arrays/files.ts';
import { entryBytes, type ZipEntry, zipEntries } from '../../src/base/arrays/zip-reader.ts';
import { Random } from '../../src/base/random.ts';
import { encodeNpy, type NamedTensors, readNpz, writeNpz } from '../../src/entries/formats.ts';
import { rejection } from '../rig/refusal.ts';
import { itAll, itLong } from '../rig/setting.ts';
import { allDTypes, expectSame, inFolder, manyTensors, tensor } from './tensors.ts';

const x = Buffer.from(encodeNpy(tensor('float32', [1000])));

interface Entry {
  name?: string | Buffer;
  content?: Buffer;
  packed?: Buffer;
  method?: number;
  flags?: number;
  sum?: number;
  size?: number;
  /** the offset of the entry, only in the directory */
  place?: number;
  extra?: Buffer;
  localName?: string;
}

/** Builds a zip file by hand. `at` is the offset of its directory. */
function zipOf(
  entries: readonly Entry[],
  end: { count?: number; comment?: string; disk?: number } = {},
) {
  const files: Buffer[] = [];
  const directory: Buffer[] = [];
  let place = 0;
  for (const entry of entries) {
    const { content = x, method = 0, flags = 0, extra = Buffer.alloc(0) } = entry;
    const { packed = method === 8 ? deflateRawSync(content) : content, sum = zlibsCrc32(content) } =
      entry;
    const name = Buffer.from((entry.name ?? 'x.npy') as string);
    const localName = entry.localName === undefined ? name : Buffer.from(entry.localName);
    const common = Buffer.alloc(26);
    for (const [i, value] of [20, flags, method, 0, 33].entries())
      common.writeUInt16LE(value, 2 * i);
    for (const [i, value] of [sum, packed.length, entry.size ?? content.length].entries())
      common.writeUInt32LE(value, 10 + 4 * i);
    common.writeUInt16LE(localName.length, 22);
    files.push(Buffer.from('PK\x03\x04'), Buffer.from(common), localName, packed);
    common.writeUInt16LE(name.length, 22);
    common.writeUInt16LE(extra.length, 24);
    const rest = Buffer.alloc(14);
    rest.writeUInt32LE(entry.place ?? place, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x03'), common, rest, name, extra);
    place += 30 + localName.length + packed.length;
  }
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  const last = Buffer.alloc(22 + (end.comment ?? '').length);
  last.write('PK\x05\x06');
  last.writeUInt16LE(end.disk ?? 0, 4);
  for (const at of [8, 10]) last.writeUInt16LE(end.count ?? entries.length, at);
  last.writeUInt32LE(size, 12);
  last.writeUInt32LE(place, 16);
  last.writeUInt16LE((end.comment ?? '').length, 20);
  last.write(end.comment ?? '', 22);
  return Buffer.concat([...files, ...directory, last]);
}

/** Builds an npy file with a numpy dtype that Hotslot does not have. */
function foreign(descr: string): Buffer {
  const bytes = Buffer.from(encodeNpy(tensor('uint8', [8])));
  const text = bytes.toString('latin1').replace("'|u1'", `'${descr}'`);
  return Buffer.concat([
    Buffer.from(
      text
        .slice(0, bytes.length - 9)
        .trimEnd()
        .padEnd(bytes.length - 9),
      'latin1',
    ),
    bytes.subarray(-9),
  ]);
}

const bits = (change: (bytes: Buffer) => void, file = zipOf([{}])) => {
  change(file);
  return file;
};
const zip64 = (...values: bigint[]) => {
  const extra = Buffer.alloc(4 + 8 * values.length);
  extra.writeUInt16LE(1, 0);
  extra.writeUInt16LE(8 * values.length, 2);
  for (const [i, value] of values.entries()) extra.writeBigUInt64LE(value, 4 + 8 * i);
  return extra;
};

describe('writeNpz() and readNpz()', () => {
  const read = async (file: Uint8Array) => {
    let found: NamedTensors = {};
    await inFolder(async (folder) => {
      writeFileSync(join(folder, 'x.npz'), file);
      found = await readNpz(join(folder, 'x.npz'));
    });
    return found;
  };

  it('round-trip every shape and every dtype except bfloat16', () =>
    inFolder(
      async (folder) => {
        const tensors = manyTensors(allDTypes.filter((dtype) => dtype !== 'bfloat16'));
        await writeNpz(join(folder, 'x.npz'), tensors);
        const found = await readNpz(join(folder, 'x.npz'));
        expectSame(found, tensors);
        expect(Object.keys(found)).to.deep.equal(Object.keys(tensors));
        await writeNpz(join(folder, 'again.npz'), found);
        expect(
          readFileSync(join(folder, 'again.npz')).equals(readFileSync(join(folder, 'x.npz'))),
        ).to.equal(true);
      },
      ['again.npz', 'x.npz'],
    ));

  it('read only the arrays in `names`, even if other arrays have unsupported dtypes', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      const y = tensor('int16', [3]);
      const told = {
        'objects.npy': foreign('|O8'),
        'text.npy': foreign('<U1'),
        'y.npy': Buffer.from(encodeNpy(y)),
      };
      writeFileSync(
        path,
        zipOf(Object.entries(told).map(([name, content]) => ({ name, content }))),
      );
      expectSame(await readNpz(path, { names: ['y'] }), { y });
      expectSame(await readNpz(path, { names: [] }), {});
      for (const names of [undefined, ['y', 'objects']])
        expect((await rejection(readNpz(path, names && { names }))).message).to.match(
          /'objects\.npy': its dtype .* is objects/,
        );
      const none = await rejection(readNpz(path, { names: ['y', 'z'] }));
      expect(none.message).to.match(/has no 'z'; it has objects, text, y$/);
      expect((await rejection(readNpz(path, { names: 'y' as never }))).message).to.include(
        'names must be an array of names',
      );
    }));

  it('round-trip a file without tensors, and unusual names', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      await writeNpz(path, {});
      expectSame(await readNpz(path), {});
      const names = [
        '__proto__',
        'constructor',
        '',
        'a/b',
        'ä',
        '\u{1f600}',
        'x.npy',
        'n'.repeat(65_531),
      ];
      const tensors = Object.fromEntries(names.map((name, i) => [name, tensor('int16', [3], i)]));
      await writeNpz(path, tensors);
      expectSame(await readNpz(path), tensors);
    }));

  itAll('use zip64 for more than 65,534 entries', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      for (const count of [65_534, 65_535]) {
        const tensors = Object.fromEntries(
          Array.from({ length: count }, (_, i) => [
            i,
            { dtype: 'uint32', shape: [], data: Uint32Array.of(i) } as const,
          ]),
        );
        await writeNpz(path, tensors);
        expect(readFileSync(path).includes('PK\x06\x06')).to.equal(count > 65_534);
        const entries = await reading('x', path, (file) => zipEntries('x', file));
        // Compares the names as one text, because chai takes seconds for so large an array.
        expect(
          entries.map(({ name }) => name).join() === `${Object.keys(tensors).join('.npy,')}.npy`,
        ).to.equal(true);
      }
    }),
  );

  itLong('write and read an entry and an offset beyond 4 GiB', function () {
    // Writing takes long on a slow disk.
    this.timeout(300_000);
    return inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      const behind = tensor('float64', [5]);
      const length = 2 ** 30 + 5;
      await writeNpz(path, {
        large: { dtype: 'float32', shape: [length], data: new Float32Array(length) },
        behind,
      });
      await reading('x', path, async (file: Reading) => {
        const [large, small] = (await zipEntries('x', file)) as [ZipEntry, ZipEntry];
        expect([large.size, small.place > 2 ** 32]).to.deep.equal([4 * length + 128, true]);
        let count = 0;
        for await (const piece of entryBytes('x', file, large)) count += piece.length;
        expect(count).to.equal(large.size);
        for await (const piece of entryBytes('x', file, small))
          expect(Buffer.from(encodeNpy(behind)).equals(piece)).to.equal(true);
      });
    });
  });

  it('compute the CRC-32 of zlib by table, in one piece or in several pieces', () => {
    const bytes = tensor('uint8', [1000]).data as Uint8Array;
    expect(crc32ByTable(Buffer.from('123456789'))).to.equal(0xcbf43926);
    expect(crc32ByTable(bytes)).to.equal(zlibsCrc32(bytes));
    expect(crc32ByTable(bytes.subarray(7), crc32ByTable(bytes.subarray(0, 7)))).to.equal(
      zlibsCrc32(bytes),
    );
  });

  it('read deflated entries, comments and unnecessary zip64 fields of other writers', async () => {
    const wanted = { x: tensor('float32', [1000]) };
    const mark = 'PK\x05\x06 is in this comment'.padEnd(30, '\0');
    const wide = zip64(BigInt(x.length));
    const other = Buffer.from([0x55, 0x54, 1, 0, 9]);
    for (const file of [
      zipOf([{ method: 8 }]),
      zipOf([{}], { comment: mark }),
      zipOf([{ size: 0xffffffff, extra: wide }]),
      zipOf([{ size: 0xffffffff, extra: Buffer.concat([other, wide]) }]),
      zipOf([{ method: 8, content: x, packed: deflateRawSync(x, { level: 0 }) }]),
    ])
      expectSame(await read(file), wanted);
  });

  const malformed: readonly [string, Uint8Array, RegExp][] = [
    ['an empty file', new Uint8Array(), /it is not a zip file, or its end is missing$/],
    ['an npy file', x, /it is not a zip file/],
    [
      'a truncated file',
      zipOf([{}]).subarray(0, -1),
      /it is not a zip file, or its end is missing$/,
    ],
    [
      'extra bytes before the zip file',
      Buffer.concat([Buffer.alloc(3), zipOf([{}])]),
      /its directory ends at byte \d+, but the record after it begins/,
    ],
    [
      'one part of a multi-part zip file',
      zipOf([{}], { disk: 1 }),
      /it is one part of a split archive/,
    ],
    [
      'fewer entries than its entry count',
      zipOf([{}], { count: 2 }),
      /its directory is truncated at entry 1 of 2$/,
    ],
    [
      'more entries than its entry count',
      zipOf([{}, {}], { count: 1 }),
      /has 51 bytes more than its 1 entries$/,
    ],
    [
      'zip64 without its end record',
      zipOf([{}], { count: 0xffff }),
      /its end of zip64 is missing$/,
    ],
    ['a repeated name', zipOf([{}, {}]), /it has two entries 'x\.npy'$/],
    [
      'two entries at the same offset',
      zipOf([{}, { name: 'y.npy', localName: 'x.npy', place: 0 }]),
      /'[xy]\.npy' overlaps the entry/,
    ],
    [
      'an entry without the suffix .npy',
      zipOf([{ name: 'readme.txt' }]),
      /'readme\.txt': it is not an array: names of arrays in an npz end with/,
    ],
    [
      'a folder entry',
      zipOf([{ name: 'a/', content: Buffer.alloc(0) }]),
      /'a\/': it is not an array/,
    ],
    ['an empty entry', zipOf([{ content: Buffer.alloc(0) }]), /'x\.npy': it is empty$/],
    [
      'an entry that is no npy file',
      zipOf([{ content: Buffer.from('not what it says') }]),
      /'x\.npy': it is not an npy file/,
    ],
    [
      'a truncated npy entry',
      zipOf([{ content: x.subarray(0, -4) }]),
      /'x\.npy': float32 of shape \[1000\] is 4000 bytes/,
    ],
    ['an encrypted entry', zipOf([{ flags: 1 }]), /it is encrypted: save it without a password$/],
    [
      'an unsupported compression method',
      zipOf([{ method: 14 }]),
      /packed by method 14: save it stored or deflated/,
    ],
    [
      'a name in an old code page',
      zipOf([{ name: Buffer.from([0x84, 0x2e]) }]),
      /name is in an old code page/,
    ],
    [
      'a name that is no UTF-8',
      zipOf([{ flags: 0x800, name: Buffer.from([0xff, 0x2e]) }]),
      /name is not UTF-8/,
    ],
    [
      'another name in the local header',
      zipOf([{ localName: 'y.npy' }]),
      /its own header differs from the directory$/,
    ],
    [
      'an entry without its local header',
      bits((file) => file.fill(0, 0, 4)),
      /its own header differs/,
    ],
    [
      'a local header that is too long',
      bits((file) => file.writeUInt16LE(9, 28)),
      /its own header differs/,
    ],
    [
      'an entry offset beyond the file',
      zipOf([{ place: 2 ** 31 }]),
      /overlaps the entry after it$/,
    ],
    [
      'a wrong size of a stored entry',
      zipOf([{ size: 5 }]),
      /claims that 4128 packed bytes become 5, which is impossible$/,
    ],
    [
      'an entry size that deflated bytes cannot reach',
      zipOf([{ method: 8, size: 2 ** 31 }]),
      /packed bytes become 2147483648, which is impossible$/,
    ],
    ['missing zip64 sizes', zipOf([{ size: 0xffffffff }]), /its sizes of zip64 are missing$/],
    [
      'a zip64 size above 2⁵³',
      zipOf([{ size: 0xffffffff, extra: zip64(2n ** 60n) }]),
      /a field of zip64 is 1152921504606846976$/,
    ],
    [
      'truncated zip64 sizes',
      zipOf([{ size: 0xffffffff, extra: Buffer.from([1, 0, 0, 0]) }]),
      /a field of zip64 is missing$/,
    ],
    [
      'an entry size below the deflated content',
      zipOf([{ method: 8, size: x.length - 4 }]),
      /has more bytes than the declared 4124$/,
    ],
    [
      'deflated content below the entry size',
      zipOf([{ method: 8, size: x.length, packed: deflateRawSync(x.subarray(0, -4)) }]),
      /has fewer bytes than the declared 4128$/,
    ],
    [
      'deflated content of twice the entry size',
      zipOf([{ method: 8, size: x.length, packed: deflateRawSync(Buffer.concat([x, x])) }]),
      /has more bytes than the declared 4128$/,
    ],
    [
      'a wrong CRC-32 of stored bytes',
      zipOf([{ sum: 1 }]),
      /its CRC-32 differs: the bytes were changed after they were written$/,
    ],
    ['a wrong CRC-32 of deflated bytes', zipOf([{ sum: 1, method: 8 }]), /its CRC-32 differs/],
    ['another sum of what is deflated', zipOf([{ sum: 1, method: 8 }]), /its CRC-32 differs/],
    [
      'invalid deflated bytes',
      zipOf([{ method: 8, packed: Buffer.alloc(2000, 0xff) }]),
      /its deflated bytes are damaged: /,
    ],
    [
      'truncated deflated bytes',
      zipOf([{ method: 8, packed: deflateRawSync(x).subarray(0, -9) }]),
      /its deflated bytes are damaged: unexpected end/,
    ],
    [
      'extra bytes after the deflated stream',
      zipOf([{ method: 8, packed: Buffer.concat([deflateRawSync(x), x]) }]),
      /its deflated bytes end too early$/,
    ],
  ];
  for (const [title, file, says] of malformed)
    it(`readNpz() rejects ${title}`, async () => {
      const error = await rejection(read(file));
      expect(error.message)
        .to.match(says)
        .and.to.match(/^readNpz: '.*x\.npz': /);
      expect([error.code, error.message.length < 300]).to.deep.equal(
        ['ERR_HOTSLOT_RANGE', true],
        error.message,
      );
    });

  it('reject names and tensors that npz cannot store', () =>
    inFolder(async (folder) => {
      const said = async (tensors: NamedTensors) =>
        (await rejection(writeNpz(join(folder, 'x'), tensors))).message;
      const one = tensor('int8', [1]);
      expect(await said({ w: tensor('bfloat16', [2]) })).to.match(
        /^writeNpz: 'w': npy does not support bfloat16; give the float32/,
      );
      expect(await said({ 'a\0b': one })).to.match(
        /a name in a zip file is at most 65531 bytes, without NUL$/,
      );
      expect(await said({ ['n'.repeat(65_532)]: one })).to.match(
        /a name in a zip file is at most 65531 bytes/,
      );
      expect(await said(new Map() as never)).to.match(
        /^writeNpz: tensors must be a plain object, got a Map$/,
      );
    }, []));

  it('reject a file with a flipped bit in its data', () =>
    inFolder(async (folder) => {
      const path = join(folder, 'x.npz');
      await writeNpz(path, { a: tensor('int32', [50]), b: tensor('float64', [3, 3]) });
      const whole = readFileSync(path);
      const random = new Random(3);
      for (let round = 0; round < 200; round++) {
        const at = 30 + 5 + 128 + random.below(200); // in the data of the first entry
        const file = Buffer.from(whole);
        file.writeUInt8(file.readUInt8(at) ^ (1 << random.below(8)), at);
        writeFileSync(path, file);
        expect((await rejection(readNpz(path))).code).to.equal('ERR_HOTSLOT_RANGE');
      }
    }));
});
