/**
 * Tests against numpy: numpy reads what Hotslot writes, and Hotslot reads what numpy writes, in
 * each of numpy's layouts.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import {
  decodeNpy,
  encodeNpy,
  type NamedTensors,
  readNpz,
  writeNpz,
} from '../../src/entries/formats.ts';
import { refusal } from '../rig/refusal.ts';
import { itAll } from '../rig/setting.ts';
import { allDTypes, bytesOf, expectSame, inFolder, manyTensors, tensor } from './tensors.ts';

/** Debian's Python, which has numpy as a package. Another python3 in the PATH may lack it. */
const PYTHON = '/usr/bin/python3';

/**
 * Runs a Python program in the folder, with numpy as np. Returns the JSON that it prints, parsed.
 */
function python(folder: string, program: string): unknown {
  const { status, stdout, stderr } = spawnSync(
    PYTHON,
    ['-c', `import json\nimport numpy as np\n${program}`],
    {
      cwd: folder,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
    },
  );
  expect(status, stderr).to.equal(0);
  return stdout === '' ? undefined : JSON.parse(stdout);
}
/**
 * Describes an array in numpy: the dtype's name, the shape, and the bytes in little-endian,
 * row-major order.
 */
const LOOK =
  'look = lambda a: [str(a.dtype), list(a.shape), np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<")).tobytes().hex()]';
const lookOf = (tensors: NamedTensors) =>
  Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, shape, data }]) => [
      name,
      [dtype, [...shape], Buffer.from(bytesOf(data)).toString('hex')],
    ]),
  );

const numpys = allDTypes.filter((dtype) => dtype !== 'bfloat16');

describe('numpy and Hotslot', () => {
  before(function () {
    if (spawnSync(PYTHON, ['-c', 'import numpy']).status === 0) return;
    console.log(`      left out: ${PYTHON} has no numpy (apt-get install python3-numpy)`);
    this.skip();
  });

  itAll('numpy reads the output of encodeNpy() for every dtype and shape', () =>
    inFolder(async (folder) => {
      const tensors = manyTensors(numpys);
      for (const [name, each] of Object.entries(tensors))
        writeFileSync(join(folder, `${name}.npy`), encodeNpy(each));
      const program = `${LOOK}\nprint(json.dumps({n: look(np.load(n + ".npy")) for n in json.loads(${JSON.stringify(JSON.stringify(Object.keys(tensors)))})}))`;
      expect(python(folder, program)).to.deep.equal(lookOf(tensors));
    }),
  );

  itAll('numpy reads files of writeNpz() with their names, and their checksums are valid', () =>
    inFolder(async (folder) => {
      const tensors: NamedTensors = {
        ...manyTensors(numpys),
        'a/b': tensor('int8', [2]),
        'ä \u{1f600}': tensor('int8', []),
      };
      await writeNpz(join(folder, 'x.npz'), tensors);
      const program = `${LOOK}\nimport zipfile\nassert zipfile.ZipFile("x.npz").testzip() is None\nd = np.load("x.npz")\nprint(json.dumps({n: look(d[n]) for n in d.files}))`;
      expect(python(folder, program)).to.deep.equal(lookOf(tensors));
    }),
  );

  itAll('numpy reads zip64 files of writeNpz()', () =>
    inFolder(async (folder) => {
      const many = Object.fromEntries(
        Array.from({ length: 65_600 }, (_, i) => [i, tensor('uint8', [], i)]),
      );
      await writeNpz(join(folder, 'x.npz'), many);
      const [count, last] = python(
        folder,
        'd = np.load("x.npz")\nprint(json.dumps([len(d.files), int(d["65599"])]))',
      ) as [number, number];
      expect([count, last]).to.deep.equal([65_600, many[65_599]?.data[0]]);
    }),
  );

  /** A numpy function that returns the same values in any byte order, row-major or column-major. */
  const WRITE = `
def written(name):
    kind = np.dtype(name).newbyteorder(order)
    flat = np.arange(24) % 2 if name == "bool" else np.arange(24) - (0 if name.startswith("u") else 12)
    a = flat.astype(kind).reshape(2, 3, 4)
    return np.asfortranarray(a) if fortran else a
names = json.loads('${JSON.stringify(numpys)}')`;
  const expected: NamedTensors = Object.fromEntries(
    numpys.map((dtype) => {
      const numbers = Array.from({ length: 24 }, (_, i) =>
        dtype === 'bool' ? i % 2 : i - (dtype.startsWith('u') ? 0 : 12),
      );
      const each = tensor(dtype, [2, 3, 4]);
      if (dtype === 'float16') {
        // 0 to 12 as binary16, written by hand.
        const bits = [
          0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800, 0x4880, 0x4900, 0x4980,
          0x4a00,
        ];
        each.data.set(
          numbers.map(
            (value) => (bits[Math.abs(value)] as number) | (value < 0 ? 0x8000 : 0),
          ) as never,
        );
      } else each.data.set((/^u?int64$/.test(dtype) ? numbers.map(BigInt) : numbers) as never);
      return [dtype, each];
    }),
  );
  for (const order of ['<', '>'])
    for (const fortran of [false, true])
      (order === '<' && !fortran ? it : itAll)(
        `Hotslot reads ${order === '<' ? 'little' : 'big'}-endian arrays in ${fortran ? 'Fortran' : 'C'} order`,
        () =>
          inFolder(async (folder) => {
            const setup = `order, fortran = "${order}", ${fortran ? 'True' : 'False'}${WRITE}`;
            const save = 'for n in names: np.save(n + ".npy", written(n))';
            const zip = 'np.savez("s.npz", **{n: written(n) for n in names})';
            python(
              folder,
              `${setup}\n${save}\n${zip}\n${zip.replace('savez("s', 'savez_compressed("c')}`,
            );
            const loaded = numpys.map((name) => [
              name,
              decodeNpy(readFileSync(join(folder, `${name}.npy`))),
            ]);
            expectSame(Object.fromEntries(loaded) as NamedTensors, expected);
            expectSame(await readNpz(join(folder, 's.npz')), expected);
            expectSame(await readNpz(join(folder, 'c.npz')), expected);
          }),
      );

  itAll(
    'Hotslot reads npy 1.0 to 3.0, empty arrays, scalars, 32 dimensions and highly compressed data',
    () =>
      inFolder(async (folder) => {
        python(
          folder,
          `for v in (1, 2, 3):
    with open(f"{v}.npy", "wb") as f: np.lib.format.write_array(f, np.float32([[1, 2]]), (v, 0))
np.savez_compressed("c.npz", empty=np.zeros((3, 0), "i8"), scalar=np.int16(-3), deep=np.ones((1,) * 32, "u1"), zeros=np.zeros(1000000))`,
        );
        const two: NamedTensors = {
          x: { dtype: 'float32', shape: [1, 2], data: Float32Array.of(1, 2) },
        };
        for (const version of [1, 2, 3])
          expectSame({ x: decodeNpy(readFileSync(join(folder, `${version}.npy`))) }, two);
        expectSame(await readNpz(join(folder, 'c.npz')), {
          empty: { dtype: 'int64', shape: [3, 0], data: new BigInt64Array(0) },
          scalar: { dtype: 'int16', shape: [], data: Int16Array.of(-3) },
          deep: {
            dtype: 'uint8',
            shape: Array.from({ length: 32 }, () => 1),
            data: Uint8Array.of(1),
          },
          zeros: { dtype: 'float64', shape: [1_000_000], data: new Float64Array(1_000_000) },
        });
      }),
  );

  it('decodeNpy() throws with a remedy for numpy dtypes that Hotslot does not have', () =>
    inFolder(async (folder) => {
      const cases: [string, RegExp][] = [
        [
          'np.array([None])',
          /objects, which only pickle can read: save an array of numbers, with allow_pickle=False$/,
        ],
        [
          'np.zeros(2, [("x", "f4"), ("y", "i4")])',
          /structured: save each field as an array of its own/,
        ],
        ['np.zeros(2, [("x", "f4"), ("ä", "O")])', /structured/],
        ['np.array([1j])', /complex: save real and imaginary parts/],
        ['np.array(["x"])', /text: save an array of numbers/],
        ['np.array([b"x"])', /bytes of text/],
        ['np.array(["2020-01-01"], "M8[D]")', /dates: save them as int64/],
        ['np.array([1], "m8[s]")', /time spans: save them as int64/],
        ['np.zeros(2, "V2")', /void/],
        ['np.zeros(2, "g")', /unknown to Hotslot/],
      ];
      const saves = cases.map(([made], i) => `np.save("${i}.npy", ${made}, allow_pickle=True)`);
      python(folder, saves.join('\n'));
      for (const [i, [made, says]] of cases.entries()) {
        const error = refusal(() => decodeNpy(readFileSync(join(folder, `${i}.npy`))));
        expect([error.code, error.message], made).to.deep.equal([
          'ERR_HOTSLOT_ARGUMENT',
          error.message,
        ]);
        expect(error.message).to.match(says);
      }
    }));
});
