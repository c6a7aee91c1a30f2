/**
 * Tests invalid safetensors files, and tensors that cannot be written. Each gets a sentence as its
 * error, in memory and for a file.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  decodeSafetensors,
  encodeSafetensors,
  type NamedTensors,
  readSafetensors,
  writeSafetensors,
} from '../../src/entries/formats.ts';
import { refusal, rejection } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { inFolder } from './tensors.ts';

function fileOf(header: string | Uint8Array, room = 0, length?: bigint): Uint8Array {
  const text = Buffer.from(header);
  const file = Buffer.alloc(8 + text.length + room);
  file.writeBigUInt64LE(length ?? BigInt(text.length));
  file.set(text, 8);
  return new Uint8Array(file);
}
/** Returns a header with one tensor of four bytes, with the given changes. */
const entry = (change: object = {}) =>
  JSON.stringify({ x: { dtype: 'F32', shape: [1], data_offsets: [0, 4], ...change } });
const bytes = (...each: readonly (readonly [string, number, number])[]) =>
  `{${each.map(([name, from, to]) => `"${name}":{"dtype":"U8","shape":[${to - from}],"data_offsets":[${from},${to}]}`).join()}}`;

const RANGE = 'ERR_HOTSLOT_RANGE';
const ARGUMENT = 'ERR_HOTSLOT_ARGUMENT';
const malformed: readonly [string, Uint8Array, RegExp, string?][] = [
  [
    'an empty file',
    new Uint8Array(),
    /0 bytes are not a safetensors file: the header's length alone has 8$/,
  ],
  ['a file of seven bytes', new Uint8Array(7), /7 bytes are not a safetensors file/],
  ['an empty header', fileOf(''), /the header must begin with '\{'$/],
  [
    'a header length beyond the file',
    fileOf('{}', 0, 3n),
    /the header claims 3 bytes, but only 2 follow its length$/,
  ],
  [
    'a header length above 100,000,000',
    fileOf('{}', 0, 100_000_001n),
    /claims 100000001 bytes, the format allows 100000000$/,
  ],
  [
    'a header length of 2⁶⁴ − 1',
    fileOf('{}', 0, 2n ** 64n - 1n),
    /claims 18446744073709551615 bytes, the format/,
  ],
  ['a blank before the header', fileOf(' {}'), /the header must begin with '\{'$/],
  ['a byte order mark', fileOf('\ufeff{}'), /the header must begin with '\{'$/],
  [
    'a header that is not UTF-8',
    fileOf(Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a)),
    /the header is not UTF-8$/,
  ],
  ['a truncated header', fileOf('{"x":'), /it breaks off at character 5 of the header$/],
  ['an unterminated string', fileOf('{"x'), /a text is not terminated/],
  ['an unterminated escape', fileOf('{"x\\'), /a text is not terminated/],
  [
    'a key without quotes',
    fileOf('{x:1}'),
    /a quoted text is missing at character 1 of the header$/,
  ],
  ['a missing colon', fileOf('{"x" 1}'), /':' is missing at character 5/],
  ['a trailing comma', fileOf('{"__metadata__":{},}'), /a quoted text is missing/],
  ['an invalid escape', fileOf('{"\\x":1}'), /'"\\x"' is not a JSON string/],
  ['a control character in a string', fileOf('{"\n":1}'), /is not a JSON string/],
  ['half of a surrogate pair', fileOf('{"\\ud800":1}'), /has half of a surrogate pair/],
  ['text after the header object', fileOf('{}{}'), /'\{' follows its end at character 2/],
  ['zero bytes after the header object', fileOf('{}\0\0'), /follows its end/],
  ['a value that is not JSON', fileOf('{"x":undefined}'), /'u' cannot begin a value/],
  [
    'more than 16 levels of nesting',
    fileOf(`{"x":${'['.repeat(1_000_000)}`),
    /more than 16 levels at character/,
  ],
  ['a repeated name', fileOf(`{"x":1,"x":2}`), /the key 'x' is repeated/],
  ['a repeated name in another notation', fileOf(`{"x":1,"\\u0078":2}`), /the key 'x' is repeated/],
  [
    'a repeated __proto__',
    fileOf('{"__proto__":1,"__proto__":2}'),
    /the key '__proto__' is repeated/,
  ],
  [
    'a repeated key of a tensor',
    fileOf(`{"x":{"dtype":"U8","dtype":"I8"}}`),
    /the key 'dtype' is repeated/,
  ],
  [
    'repeated metadata',
    fileOf('{"__metadata__":{},"__metadata__":{}}'),
    /the key '__metadata__' is repeated/,
  ],
  [
    'metadata in an array',
    fileOf('{"__metadata__":["x"]}'),
    /__metadata__ must hold texts by name, got an array/,
  ],
  [
    'a number in the metadata',
    fileOf('{"__metadata__":{"step":3}}'),
    /must hold texts by name, 'step' is 3$/,
  ],
  ['a tensor that is a number', fileOf('{"x":3}'), /'x': a tensor must be an object, got 3$/],
  ['a tensor without dtype', fileOf(entry({ dtype: undefined }), 4), /'x': dtype is missing$/],
  ['a tensor without shape', fileOf(entry({ shape: undefined }), 4), /'x': shape is missing$/],
  [
    'a tensor without data_offsets',
    fileOf(entry({ data_offsets: undefined }), 4),
    /'x': data_offsets is missing$/,
  ],
  [
    'an unknown key of a tensor',
    fileOf(entry({ scale: 1 }), 4),
    /unknown key 'scale'; a tensor has dtype, shape/,
  ],
  ['a dtype that is a number', fileOf(entry({ dtype: 4 }), 4), /dtype must be a text, got 4$/],
  [
    'a float8 dtype',
    fileOf(entry({ dtype: 'F8_E4M3' }), 4),
    /Hotslot has no 'F8_E4M3': save it as one of U64/,
    ARGUMENT,
  ],
  ['a complex dtype', fileOf(entry({ dtype: 'C64' }), 4), /Hotslot has no 'C64'/, ARGUMENT],
  ['a dtype in lower case', fileOf(entry({ dtype: 'f32' }), 4), /Hotslot has no 'f32'/, ARGUMENT],
  [
    'a dtype with the name of a prototype property',
    fileOf(entry({ dtype: 'toString' }), 4),
    /Hotslot has no 'toString'/,
    ARGUMENT,
  ],
  ['a shape that is a number', fileOf(entry({ shape: 1 }), 4), /shape must be an array, got 1$/],
  [
    'a dimension that is a string',
    fileOf(entry({ shape: ['1'] }), 4),
    /shape\[0\] must be a number, got string \(1\)$/,
    ARGUMENT,
  ],
  ['a negative dimension', fileOf(entry({ shape: [-1] }), 4), /'-1' is not a whole number from 0/],
  ['a fractional dimension', fileOf(entry({ shape: [1.5] }), 4), /'1\.5' is not a whole number/],
  [
    'a dimension in exponent notation',
    fileOf('{"x":{"dtype":"F32","shape":[1e0]}}', 4),
    /'1e0' is not a whole number/,
  ],
  [
    'a dimension above 2⁵³',
    fileOf('{"x":{"shape":[9007199254740993]}}', 4),
    /'9007199254740993' is not a whole/,
  ],
  [
    'a number of a million digits',
    fileOf(`{"x":${'1'.repeat(1_000_000)}}`),
    /'1{60}…' is not a whole number/,
  ],
  [
    'a shape whose product overflows',
    fileOf(entry({ shape: [2 ** 32, 2 ** 31] }), 4),
    /a shape of an array of 2 is too large to count/,
  ],
  [
    'a shape whose byte count overflows',
    fileOf(entry({ shape: [2 ** 52] }), 4),
    /is too large to count$/,
  ],
  [
    'a single data offset',
    fileOf(entry({ data_offsets: [0] }), 4),
    /data_offsets must be two numbers, got an array of 1$/,
  ],
  [
    'a data offset that is a string',
    fileOf(entry({ data_offsets: ['0', 4] }), 4),
    /data_offsets must be two numbers/,
  ],
  [
    'decreasing data offsets',
    fileOf(entry({ data_offsets: [4, 0] }), 4),
    /data_offsets \[4,0\] must increase, within the 4 bytes/,
  ],
  [
    'data offsets beyond the data',
    fileOf(entry({ data_offsets: [1, 5] }), 4),
    /data_offsets \[1,5\] must increase, within the 4 bytes/,
  ],
  [
    'data offsets of another size than the shape',
    fileOf(entry({ shape: [2] }), 4),
    /F32 of shape \[2\] is 8 bytes, data_offsets \[0,4\] are 4$/,
  ],
  [
    'unused bytes before the first tensor',
    fileOf(bytes(['x', 1, 2]), 2),
    /'x' begins at byte 1 of the data: no tensor has bytes 0 to 1$/,
  ],
  [
    'a gap between two tensors',
    fileOf(bytes(['x', 0, 1], ['y', 2, 3]), 3),
    /'y' begins at byte 2 of the data: no tensor has bytes 1 to 2/,
  ],
  [
    'two overlapping tensors',
    fileOf(bytes(['x', 0, 2], ['y', 1, 3]), 3),
    /'y' begins at byte 1 of the data: it overlaps/,
  ],
  [
    'two tensors of the same bytes',
    fileOf(bytes(['x', 0, 2], ['y', 0, 2]), 2),
    /'y' begins at byte 0 of the data: it overlaps/,
  ],
  [
    'an empty tensor within another tensor',
    fileOf(bytes(['x', 0, 2], ['y', 1, 1]), 2),
    /'y' begins at byte 1 of the data: it overlaps/,
  ],
  [
    'unused bytes after the last tensor',
    fileOf(bytes(['x', 0, 1]), 2),
    /the tensors end at byte 1 of the data, which has 2$/,
  ],
  [
    'data bytes without a tensor',
    fileOf('{}', 1),
    /the tensors end at byte 0 of the data, which has 1$/,
  ],
];

describe('safetensors: errors', () => {
  for (const [title, file, says, code = RANGE] of malformed)
    it(`reading rejects ${title}`, () =>
      inFolder(async (folder) => {
        const path = join(folder, 'x');
        writeFileSync(path, file);
        for (const error of [
          refusal(() => decodeSafetensors(file)),
          await rejection(readSafetensors(path)),
        ]) {
          expect(error.message).to.match(says);
          expect([error.code, error.message.length < 300]).to.deep.equal(
            [code, true],
            error.message,
          );
        }
        expect(
          (await rejection(readSafetensors(path))).message.startsWith(
            `readSafetensors: '${path}': `,
          ),
        ).to.equal(true);
      }));

  it('reading rejects a bool that is not 0 or 1', () => {
    const file = fileOf('{"x":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}', 2);
    expect(decodeSafetensors(file).tensors.x?.data).to.deep.equal(new Uint8Array(2));
    file[file.length - 1] = 2;
    expect(refusal(() => decodeSafetensors(file)).message).to.equal(
      "decodeSafetensors: 'x': bool is 0 or 1, element 1 is 2",
    );
  });

  const one = { dtype: 'float32', shape: [1], data: new Float32Array(1) };
  const unfit: readonly [string, unknown, RegExp][] = [
    ['an array of tensors', [one], /tensors must be a plain object, got an array of 1$/],
    ['a Map', new Map([['x', one]]), /tensors must be a plain object, got a Map$/],
    [
      'a promise of tensors',
      Promise.resolve({ x: one }),
      /tensors must be a plain object, got a Promise; await it$/,
    ],
    ['undefined', undefined, /tensors must be a plain object, got undefined$/],
    [
      'a typed array in place of a tensor',
      { x: new Float32Array(1) },
      /'x': dtype: unknown dtype undefined/,
    ],
    ['a number in place of a tensor', { x: 3 }, /'x' must be \{ dtype, shape, data \}, got 3$/],
    [
      'an unknown dtype',
      { x: { ...one, dtype: 'F32' } },
      /'x': dtype: unknown dtype 'F32'; known: float32/,
    ],
    [
      'a tensor without shape',
      { x: { ...one, shape: undefined } },
      /'x': shape must be an array of whole numbers, got undefined$/,
    ],
    [
      'a fractional dimension',
      { x: { ...one, shape: [0.5] } },
      /'x': shape\[0\] must be a whole number of at least 0, got 0.5/,
    ],
    [
      'a shape whose product overflows',
      { x: { ...one, shape: [2 ** 52, 2] } },
      /too large to count$/,
    ],
    [
      'data of another dtype',
      { x: { ...one, data: new Float64Array(1) } },
      /data of float32 must be a Float32Array, got a Float64Array of 1$/,
    ],
    [
      'data in a plain array',
      { x: { ...one, data: [1] } },
      /must be a Float32Array, got an array of 1$/,
    ],
    [
      'more data than the shape',
      { x: { ...one, shape: [], data: new Float32Array(2) } },
      /a shape of \[\] has 1 elements, data has 2$/,
    ],
    [
      'a bool that is not 0 or 1',
      { x: { dtype: 'bool', shape: [1], data: Uint8Array.of(9) } },
      /bool is 0 or 1, element 0 is 9$/,
    ],
    [
      'a tensor named __metadata__',
      { __metadata__: one },
      /__metadata__ cannot be a tensor's name/,
    ],
    [
      'a name with half of a surrogate pair',
      { '\ud800': one },
      /a tensor's name has half of a surrogate pair/,
    ],
  ];
  for (const [title, tensors, says] of unfit)
    it(`writing rejects ${title}`, () =>
      inFolder(async (folder) => {
        const errors = [
          refusal(() => encodeSafetensors(tensors as NamedTensors)),
          await rejection(writeSafetensors(join(folder, 'x'), tensors as NamedTensors)),
        ];
        for (const { message, code } of errors) {
          expect(message).to.match(says);
          expect(code).to.match(/^ERR_HOTSLOT_(ARGUMENT|RANGE)$/);
        }
      }, []));

  it('writing rejects metadata that are not strings', () => {
    const said = (metadata: unknown) =>
      refusal(() => encodeSafetensors({}, metadata as Record<string, string>)).message;
    expect(said({ step: 3 })).to.equal(
      "encodeSafetensors: metadata 'step' must be a string, got 3",
    );
    expect(said(['x'])).to.match(/metadata must be a plain object, got an array of 1$/);
    expect(said({ x: '\udc00' })).to.match(/metadata 'x' has half of a surrogate pair/);
    expect(said(null)).to.match(/metadata must be a plain object, got null$/);
  });

  itAll('writing rejects a header of more than 100 MB', () => {
    const metadata = { x: 'y'.repeat(100_000_000) };
    expect(refusal(() => encodeSafetensors({}, metadata)).message).to.match(
      /header would be \d+ bytes, the format allows 100000000/,
    );
  });

  it('reading rejects input that is no Uint8Array', () => {
    for (const wrong of [undefined, 'x', [1], new ArrayBuffer(8), new Float32Array(9)])
      expect(refusal(() => decodeSafetensors(wrong as never)).code).to.equal(ARGUMENT);
  });
});
