/**
 * Tests the conversions of two-byte floats: every bit pattern in both directions, and rounding
 * against the rule, numpy and torch.
 */
import { spawnSync } from 'node:child_process';
import { expect } from 'chai';
import { fromBfloat16, fromFloat16, Random, toBfloat16, toFloat16 } from '../src/index.ts';
import { refusal } from './rig/refusal.ts';
import { itAll } from './rig/setting.ts';

const PYTHON = '/usr/bin/python3';
const every = Uint16Array.from({ length: 65_536 }, (_, i) => i);

interface Format {
  name: string;
  to: (values: Float32Array) => Uint16Array;
  from: (bits: Uint16Array) => Float32Array;
  /** bits of infinity, and the bit that makes a NaN quiet */
  infinity: number;
  quiet: number;
  /** returns the number that 16 bits mean */
  value: (bits: number) => number;
  /** a Python module and two programs, which convert floats to bit patterns and back */
  module: string;
  narrow: string;
  widen: string;
}

const formats: Format[] = [
  {
    name: 'float16',
    to: toFloat16,
    from: fromFloat16,
    infinity: 0x7c00,
    quiet: 0x200,
    value: (bits) => {
      const [exponent, mantissa] = [(bits >> 10) & 31, bits & 0x3ff];
      return (
        (bits & 0x8000 ? -1 : 1) *
        (exponent === 0 ? mantissa : 1024 + mantissa) *
        2 ** (Math.max(exponent, 1) - 25)
      );
    },
    module: 'numpy',
    narrow: 'numpy.frombuffer(i, numpy.float32).astype(numpy.float16).tobytes()',
    widen: 'numpy.frombuffer(i, numpy.float16).astype(numpy.float32).tobytes()',
  },
  {
    name: 'bfloat16',
    to: toBfloat16,
    from: fromBfloat16,
    infinity: 0x7f80,
    quiet: 0x40,
    value: (bits) => {
      const [exponent, mantissa] = [(bits >> 7) & 255, bits & 0x7f];
      return (
        (bits & 0x8000 ? -1 : 1) *
        (exponent === 0 ? mantissa : 128 + mantissa) *
        2 ** (Math.max(exponent, 1) - 134)
      );
    },
    module: 'torch',
    narrow:
      'torch.frombuffer(i, dtype=torch.float32).to(torch.bfloat16).view(torch.int16).numpy().tobytes()',
    widen: 'torch.frombuffer(i, dtype=torch.bfloat16).to(torch.float32).numpy().tobytes()',
  },
];

const wordsOf = (values: Float32Array) =>
  new Uint32Array(values.buffer, values.byteOffset, values.length);

/**
 * Returns floats that are hard to round: every number of the format, the middle between neighbors,
 * the floats next to both, and random bits.
 */
function awkward({ from, infinity }: Format): Float32Array {
  const positive = from(every.subarray(0, infinity));
  const words: number[] = [];
  for (let i = 0; i + 1 < positive.length; i++) {
    const half = wordsOf(
      Float32Array.of(((positive[i] as number) + (positive[i + 1] as number)) / 2),
    )[0] as number;
    for (const word of [wordsOf(positive)[i] as number, half]) words.push(word - 1, word, word + 1);
  }
  const largest = wordsOf(positive)[infinity - 1] as number;
  for (let i = -2; i < 10_000; i++) words.push(largest + i);
  const random = new Random(5);
  for (let i = 0; i < 300_000; i++) words.push(random.below(2 ** 32));
  const both = Uint32Array.from(words.flatMap((word) => [word, (word ^ 0x80000000) >>> 0]));
  return new Float32Array(both.buffer);
}

/** Returns the output of the Python program, or undefined if its module is not installed. */
function python({ module }: Format, program: string, input: Uint8Array): ArrayBuffer | undefined {
  const found = spawnSync(PYTHON, ['-c', `import ${module}`]);
  if (found.status !== 0) return undefined;
  const text = `import sys, warnings, ${module}\nwarnings.simplefilter('ignore')\ni = bytearray(sys.stdin.buffer.read())\nsys.stdout.buffer.write(${program})`;
  const { status, stdout, stderr } = spawnSync(PYTHON, ['-c', text], { input, maxBuffer: 2 ** 28 });
  if (status !== 0) throw new Error(String(stderr));
  return new Uint8Array(stdout).buffer;
}

for (const format of formats) {
  const { name, to, from, infinity, quiet, value } = format;
  const isNaNBits = (bits: number) => (bits & 0x7fff) > infinity;

  describe(`conversions of ${name}`, () => {
    it('convert every bit pattern to its number and back, and make NaN quiet', () => {
      const values = from(every);
      const back = to(values);
      for (let bits = 0; bits < 65_536; bits++) {
        const number = values[bits] as number;
        if (isNaNBits(bits)) expect(Number.isNaN(number)).to.equal(true);
        else if ((bits & 0x7fff) === infinity)
          expect(number).to.equal(bits === infinity ? Infinity : -Infinity);
        else if (!Object.is(number, value(bits)))
          expect.fail(`${bits} is ${number}, not ${value(bits)}`);
        const wanted = isNaNBits(bits) ? bits | quiet : bits;
        if (back[bits] !== wanted) expect.fail(`${bits} was converted back to ${back[bits]}`);
      }
    });

    itAll('round to nearest, ties to even, and large numbers to infinity', () => {
      const values = awkward(format);
      const got = to(values);
      const step = value(infinity - 1) - value(infinity - 2);
      for (let i = 0; i < values.length; i++) {
        const [number, bits] = [values[i] as number, got[i] as number];
        if (Number.isNaN(number)) {
          if (!isNaNBits(bits) || (bits & quiet) === 0) expect.fail(`a NaN became ${bits}`);
          continue;
        }
        const size = bits & 0x7fff;
        if (bits >> 15 !== Number(Object.is(number, -0) || number < 0))
          expect.fail(`${number} changed its sign`);
        // Treats infinity as the number that would follow the largest one. The largest is odd, so a
        // tie becomes infinity.
        const at = (n: number) => (n === infinity ? value(infinity - 1) + step : value(n));
        const off = Math.abs(Math.abs(number) - at(size));
        if (Math.abs(number) > at(infinity)) expect(size).to.equal(infinity);
        else {
          const others = [size - 1, size + 1].filter((n) => n >= 0 && n <= infinity);
          for (const other of others) {
            const beside = Math.abs(Math.abs(number) - at(other));
            if (beside < off || (beside === off && size % 2 === 1))
              expect.fail(`${number} became ${bits}, ${other} is nearer or even`);
          }
        }
      }
    });

    itAll(`agree with ${format.module}`, function () {
      const values = awkward(format);
      const widened = python(format, format.widen, new Uint8Array(every.buffer));
      if (widened === undefined) {
        console.log(`      skipped: ${PYTHON} has no ${format.module}`);
        return this.skip();
      }
      const [theirs, ours] = [new Float32Array(widened), from(every)];
      for (let bits = 0; bits < 65_536; bits++)
        if (!Object.is(ours[bits], theirs[bits]))
          expect.fail(`${bits} is ${ours[bits]} in Hotslot and ${theirs[bits]} in Python`);
      const narrowed = new Uint16Array(
        python(format, format.narrow, new Uint8Array(values.buffer)) as ArrayBuffer,
      );
      const got = to(values);
      for (let i = 0; i < got.length; i++) {
        const [ours, theirs] = [got[i] as number, narrowed[i] as number];
        if (ours !== theirs && !(isNaNBits(ours) && isNaNBits(theirs)))
          expect.fail(`${values[i]} is ${ours} in Hotslot and ${theirs} in Python`);
      }
    });

    it('convert a subarray, and throw for other types of arrays', () => {
      expect(from(to(Float32Array.of(9, 1, -2, 9).subarray(1, 3)))).to.deep.equal(
        Float32Array.of(1, -2),
      );
      expect(to(new Float32Array(0)).length).to.equal(0);
      expect(refusal(() => to([1] as never)).message).to.match(
        /takes a Float32Array, got an array of 1/,
      );
      expect(refusal(() => from(new Int16Array(2) as never)).message).to.match(
        /takes a Uint16Array, got a Int16Array of 2/,
      );
    });
  });
}
