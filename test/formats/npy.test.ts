/**
 * Tests npy files: the bytes that numpy writes, round trips of every dtype and shape, and which
 * files are rejected. numpy.long.test.ts uses numpy itself.
 */
import { expect } from 'chai';
import { decodeNpy, encodeNpy, type TensorData } from '../../src/entries/formats.ts';
import { refusal } from '../rig/refusal.ts';
import { allDTypes, bytesOf, expectSame, manyTensors, tensor } from './tensors.ts';

interface Written {
  version?: [number, number];
  /** bytes of the length field before the header. By default as the version requires */
  length?: number;
}

/** Builds an npy file by hand. */
function fileOf(
  header: string,
  data: Uint8Array | number = 0,
  { version = [1, 0], length }: Written = {},
): Uint8Array {
  const text = Buffer.from(header);
  const wide = version[0] === 1 ? 2 : 4;
  const front = Buffer.alloc(8 + wide);
  front.set([0x93, ...Buffer.from('NUMPY'), ...version]);
  front.writeUIntLE(length ?? text.length, 8, wide);
  return new Uint8Array(
    Buffer.concat([front, text, typeof data === 'number' ? Buffer.alloc(data) : data]),
  );
}
const headerOf = (descr: string, shape: string, order = 'False') =>
  `{'descr': ${descr}, 'fortran_order': ${order}, 'shape': ${shape}, }`;
const four = (descr: string) => fileOf(headerOf(descr, '(1,)'), 4);

describe('encodeNpy() and decodeNpy()', () => {
  it('encode and decode a small file byte by byte', () => {
    const header = `${headerOf("'<f4'", '(2, 1)').padEnd(128 - 10 - 1)}\n`;
    const bytes = fileOf(header, Uint8Array.of(0, 0, 128, 63, 0, 0, 0, 192));
    const given: TensorData = { dtype: 'float32', shape: [2, 1], data: Float32Array.of(1, -2) };
    expect(Buffer.from(encodeNpy(given)).toString('latin1')).to.equal(
      Buffer.from(bytes).toString('latin1'),
    );
    expectSame({ x: decodeNpy(bytes) }, { x: given });
  });

  it('round-trip every shape and every dtype except bfloat16', () => {
    const tensors = manyTensors(allDTypes.filter((dtype) => dtype !== 'bfloat16'));
    for (const [name, each] of Object.entries(tensors)) {
      const bytes = encodeNpy(each);
      expect((bytes.length - each.data.byteLength) % 64, name).to.equal(0);
      expectSame({ [name]: decodeNpy(bytes) }, { [name]: each });
    }
  });

  it('use version 2 when the header is too long for version 1', () => {
    const each = tensor(
      'uint8',
      Array.from({ length: 30_000 }, () => 1),
    );
    const bytes = encodeNpy(each);
    expect(bytes.subarray(6, 8)).to.deep.equal(Uint8Array.of(2, 0));
    expectSame({ x: decodeNpy(bytes) }, { x: each });
  });

  it('decode headers in the notations of other writers', () => {
    const data = Uint8Array.of(1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0);
    const headers = [
      headerOf("'<i2'", '(2, 3)'),
      `{"shape":(2,3),"fortran_order":False,"descr":"<i2"}\n`,
      `  { 'fortran_order' : False , 'descr' : '<i2' ,\n'shape' : ( 2L , 3L ) } \n`,
    ];
    for (const header of headers)
      for (const version of [1, 2, 3])
        for (const offset of [0, 1]) {
          const file = fileOf(header, data, { version: [version, 0] });
          const within = new Uint8Array(file.length + offset);
          within.set(file, offset);
          const { dtype, shape, data: found } = decodeNpy(within.subarray(offset));
          expect([dtype, shape, [...found]]).to.deep.equal(['int16', [2, 3], [1, 2, 3, 4, 5, 6]]);
        }
  });

  it('decode big-endian numbers and Fortran order', () => {
    const big = Uint8Array.of(0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6);
    expect([...decodeNpy(fileOf(headerOf("'>u2'", '(6,)'), big)).data]).to.deep.equal([
      1, 2, 3, 4, 5, 6,
    ]);
    expect([...decodeNpy(fileOf(headerOf("'>u2'", '(2, 3)', 'True'), big)).data]).to.deep.equal([
      1, 3, 5, 2, 4, 6,
    ]);
    expect([...decodeNpy(fileOf(headerOf("'>u2'", '(1, 6)', 'True'), big)).data]).to.deep.equal([
      1, 2, 3, 4, 5, 6,
    ]);
    expect([...decodeNpy(fileOf(headerOf("'<u2'", '()', 'True'), 2)).data]).to.deep.equal([0]);
    // NaNs keep their bits.
    const nans = decodeNpy(
      fileOf(headerOf("'>f4'", '(1, 1)', 'True'), Uint8Array.of(0x7f, 0xa0, 0, 1)),
    );
    expect([...bytesOf(nans.data)]).to.deep.equal([1, 0, 0xa0, 0x7f]);
  });

  const RANGE = 'ERR_HOTSLOT_RANGE';
  const ARGUMENT = 'ERR_HOTSLOT_ARGUMENT';
  const malformed: readonly [string, Uint8Array, RegExp, string?][] = [
    ['an empty file', new Uint8Array(), /it is not an npy file: npy files begin with \\x93NUMPY$/],
    [
      'a file of another format',
      Buffer.from('PK\x03\x04 and so on, and on'),
      /it is not an npy file/,
    ],
    ['a truncated prefix', fileOf('').subarray(0, 9), /it is not an npy file/],
    [
      'version 0',
      fileOf(headerOf("'<f4'", '(1,)'), 4, { version: [0, 0] }),
      /npy version 0\.0 is unknown; the versions are 1\.0, 2\.0 and/,
    ],
    ['version 4', fileOf(headerOf("'<f4'", '(1,)'), 4, { version: [4, 0] }), /npy version 4\.0/],
    ['version 1.1', fileOf(headerOf("'<f4'", '(1,)'), 4, { version: [1, 1] }), /npy version 1\.1/],
    [
      'a header length beyond the file',
      fileOf('{}', 0, { length: 9 }),
      /the header claims 9 bytes, but only 2 follow its length$/,
    ],
    [
      'a header length of 2³² − 1',
      fileOf('{}', 0, { version: [2, 0], length: 2 ** 32 - 1 }),
      /claims 4294967295 bytes; the header of an array of/,
    ],
    [
      'a header that is no dictionary',
      fileOf('[1, 2]'),
      /'\{' is missing at character 0 of the header$/,
    ],
    [
      'an empty dictionary',
      fileOf('{}'),
      /the header must contain descr, fortran_order and shape$/,
    ],
    [
      'a header without shape',
      fileOf("{'descr': '<f4', 'fortran_order': False}"),
      /must contain descr, fortran_order and shape$/,
    ],
    [
      'an unknown key',
      fileOf("{'scale': 3}"),
      /the key 'scale' is unknown or repeated at character/,
    ],
    [
      'a repeated key',
      fileOf("{'fortran_order': True, 'fortran_order': True}"),
      /the key 'fortran_order' is unknown or/,
    ],
    [
      'text after the dictionary',
      fileOf(`${headerOf("'<f4'", '(1,)')};`, 4),
      /';' follows its end/,
    ],
    ['a truncated dictionary', fileOf("{'descr': '<f4'"), /'\}' is missing/],
    [
      'a fortran_order that is a number',
      fileOf(headerOf("'<f4'", '(1,)', '1'), 4),
      /fortran_order must be True or False/,
    ],
    ['a shape that is no tuple', fileOf(headerOf("'<f4'", '[1]'), 4), /'\(' is missing/],
    [
      'a tuple of one number without a comma',
      fileOf(headerOf("'<f4'", '(1)'), 4),
      /a tuple of one number has a comma/,
    ],
    [
      'a negative dimension',
      fileOf(headerOf("'<f4'", '(-1,)'), 4),
      /shape must be whole numbers from 0 to 2⁵³ − 1/,
    ],
    [
      'a dimension of 2⁵³',
      fileOf(headerOf("'<f4'", '(9007199254740992,)'), 4),
      /shape must be whole numbers/,
    ],
    [
      'a shape whose product overflows',
      fileOf(headerOf("'<f4'", '(4294967296, 4294967296)'), 4),
      /an array of 2 is too large/,
    ],
    [
      'too few data bytes',
      fileOf(headerOf("'<f4'", '(2,)'), 7),
      /float32 of shape \[2\] is 8 bytes, but 7 follow the header$/,
    ],
    [
      'too many data bytes',
      fileOf(headerOf("'<f4'", '(2,)'), 9),
      /is 8 bytes, but 9 follow the header$/,
    ],
    [
      'a bool that is not 0 or 1',
      fileOf(headerOf("'|b1'", '(1,)'), Uint8Array.of(3)),
      /bool is 0 or 1, element 0 is 3$/,
    ],
    [
      'a dtype without byte order',
      four("'f4'"),
      /the dtype 'f4' has no byte order: it must begin with < or >$/,
    ],
    [
      'objects',
      four("'|O'"),
      /its dtype '\|O' is objects, which only pickle can read: save an array of numbers/,
      ARGUMENT,
    ],
    [
      'a structured dtype',
      four("[('x', '<f4')]"),
      /its dtype is structured: save each field as an array of its own, without/,
      ARGUMENT,
    ],
    ['a subarray dtype', four("('<f4', (2,))"), /its dtype is structured/, ARGUMENT],
    [
      'void elements such as bfloat16',
      four("'<V2'"),
      /is void, .* such as bfloat16; save the array as float32$/,
      ARGUMENT,
    ],
    [
      'complex numbers',
      four("'<c8'"),
      /is complex: save real and imaginary parts as two arrays$/,
      ARGUMENT,
    ],
    ['text', four("'<U1'"), /'<U1' is text: save an array of numbers$/, ARGUMENT],
    ['dates', four("'<M8[ns]'"), /is dates: save them as int64, by view\('int64'\)$/, ARGUMENT],
    [
      'long doubles',
      four("'<f16'"),
      /'<f16' is unknown to Hotslot; save the array as one of float64/,
      ARGUMENT,
    ],
    [
      'a dtype with the name of a prototype property',
      four("'<constructor'"),
      /is complex: /,
      ARGUMENT,
    ],
  ];
  for (const [title, file, says, code = RANGE] of malformed)
    it(`decodeNpy() throws for ${title}`, () => {
      const error = refusal(() => decodeNpy(file));
      expect(error.message)
        .to.match(says)
        .and.to.match(/^decodeNpy: /);
      expect([error.code, error.message.length < 300]).to.deep.equal([code, true], error.message);
    });

  it('throw for tensors that npy cannot store, and for input that is no Uint8Array', () => {
    expect(refusal(() => encodeNpy(tensor('bfloat16', [2]))).message).to.equal(
      'encodeNpy: npy does not support bfloat16; give the float32 of fromBfloat16(data), or write safetensors',
    );
    expect(refusal(() => encodeNpy({ ...tensor('int8', [2]), shape: [3] })).message).to.equal(
      'encodeNpy: the tensor: a shape of [3] has 3 elements, data has 2',
    );
    expect(refusal(() => encodeNpy(undefined as never)).message).to.match(
      /the tensor must be \{ dtype, shape, data \}/,
    );
    for (const wrong of [undefined, 'x', [1], new ArrayBuffer(8)])
      expect(refusal(() => decodeNpy(wrong as never)).code).to.equal(ARGUMENT);
  });
});
