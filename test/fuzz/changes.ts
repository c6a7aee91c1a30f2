/** Odd values, and changes that make right arguments wrong. */
import type { Random } from '../../src/index.ts';
import { code, type Gen, one, type Value } from './values.ts';

/**
 * No object has these names, and no call can allocate this much by accident: the system refuses 2
 * ** 40 bytes.
 */
const numbers = one(
  'NaN',
  'Infinity',
  '-Infinity',
  '-0',
  '0',
  '-1',
  '1',
  '2',
  '3',
  '7',
  '0.5',
  '1.5',
  '-1.5',
  '1e-300',
  '1e308',
  '5e-324',
  '255',
  '256',
  '65535',
  '65536',
  '2 ** 31 - 1',
  '2 ** 31',
  '2 ** 32 - 1',
  '2 ** 32',
  '2 ** 32 + 1',
  '-(2 ** 31)',
  '-(2 ** 31) - 1',
  '2 ** 40',
  '2 ** 52',
  '2 ** 53 - 1',
  '2 ** 53',
  '-(2 ** 53)',
  '2n',
  '-1n',
  '2n ** 63n',
  '2n ** 64n',
);

const plain = one(
  'undefined',
  'null',
  'true',
  'false',
  "''",
  "'x'",
  "'float32'",
  "'bfloat16'",
  "'__proto__'",
  "'constructor'",
  "'\\0'",
  "'1'",
  "'host:0'",
  "'cpu'",
  "'x'.repeat(100000)",
  "'\\ud800'",
  "Symbol('s')",
  'Symbol.iterator',
  '{}',
  '[]',
  '[1]',
  '[[]]',
  '[,]',
  "['x']",
  '[1, 2, 3, 4, 5, 6, 7, 8, 9]',
  'new Array(1000)',
  '() => {}',
  'async () => {}',
  'function* () {}',
  'class {}',
  'new Map()',
  'new Set([1])',
  'new Date(0)',
  '/x/',
  "new Error('x')",
  'Promise.resolve(1)',
  'Object.create(null)',
  'Object.freeze({})',
  "new URL('file:///nowhere')",
  'new AbortController().signal',
  'AbortSignal.abort(told)',
  'globalThis',
  'Object(1)',
  "Object('x')",
  '{ length: 4 }',
  '{ length: -1 }',
  '{ length: NaN, 0: 1 }',
  '{ then: 1 }',
  '{ shape: [1] }',
  '{ nope: 1 }',
);

const memory = one(
  'new Float32Array(0)',
  'new Float32Array(1)',
  'new Float32Array(3)',
  'new Float32Array(4).fill(NaN)',
  'new Float64Array(2)',
  'new Uint8Array(1)',
  'new Uint8Array(64)',
  'new Int8Array(4)',
  'new Uint8ClampedArray(4)',
  'new Uint16Array(3)',
  'new Int32Array(2)',
  'new Uint32Array(2)',
  'new BigInt64Array(2)',
  'new BigUint64Array(1)',
  'new DataView(new ArrayBuffer(8))',
  'new ArrayBuffer(8)',
  'new SharedArrayBuffer(8)',
  'new Float32Array(new SharedArrayBuffer(16))',
  'new Uint8Array(new SharedArrayBuffer(64), 3, 5)',
  'Buffer.alloc(4)',
  'new Float32Array(new ArrayBuffer(24), 8, 2)',
  'new (class Mine extends Float32Array {})(4)',
  'odd.detached(Float32Array)',
  'odd.detached(Uint8Array)',
  'odd.shrunk(Float32Array)',
  'odd.shrunk(Uint8Array)',
  'odd.growing(Float32Array)',
  'odd.overlapping(Float32Array)[0]',
  'odd.overlapping(Uint32Array)[1]',
  'odd.lying(Float32Array)',
);

const hostile = one(
  'odd.throwing',
  'odd.revoked()',
  'odd.valueOf',
  'odd.toString',
  'odd.iterable',
  'odd.endless',
  'odd.proxied({})',
  'odd.getter({ shape: [1] })',
  'odd.proxied([1])',
  'odd.proxied(() => {})',
  'odd.inherited({ shape: [2] })',
  'odd.cyclic',
  'odd.throws',
  'odd.rejects',
);

const ofWorld =
  (names: readonly string[]): Gen =>
  (random) => {
    const name = names[random.below(names.length)] as string;
    const forms = [
      `w.${name}`,
      `w.${name}`,
      `w.${name}`,
      `w.${name}`,
      `{ ...w.${name} }`,
      `Object.create(w.${name})`,
      `odd.proxied(w.${name})`,
    ];
    return code(forms[random.below(forms.length)] as string);
  };

/** Draws a value that is mostly wrong. It may be right for another argument. */
export const oddOf = (names: readonly string[]): Gen => {
  const live = ofWorld(names);
  return (random) => {
    const kind = random.below(10);
    if (kind < 4) return numbers(random);
    if (kind < 6) return plain(random);
    if (kind < 7) return memory(random);
    if (kind < 8) return hostile(random);
    return live(random);
  };
};

/** Makes the object `odd` in the scope, anew for each call. */
export function oddities(told: Error): Record<string, unknown> {
  type Making = new (buffer: ArrayBuffer, offset?: number, length?: number) => Uint8Array;
  const thrower = () => {
    throw told;
  };
  const traps = new Proxy({}, { get: () => thrower });
  const cyclic: Record<string, unknown> = { list: [] };
  cyclic.self = cyclic;
  (cyclic.list as unknown[]).push(cyclic);
  return {
    throwing: new Proxy({}, traps),
    throws: thrower,
    rejects: () => Promise.reject(told),
    cyclic,
    valueOf: { valueOf: thrower, [Symbol.toPrimitive]: thrower },
    toString: { toString: thrower },
    iterable: { [Symbol.iterator]: thrower, length: 1 },
    // It does end. A consumer that does not check the length gets a long list.
    endless: {
      *[Symbol.iterator]() {
        for (let i = 0; i < 10_000; i++) yield ['x', i];
      },
    },
    revoked: () => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      return proxy;
    },
    proxied: (target: object) => new Proxy(target, {}),
    inherited: (target: object) => Object.create(target) as object,
    getter: (target: object) =>
      Object.defineProperties(
        {},
        Object.fromEntries(
          Object.keys(target).map((key) => [key, { get: thrower, enumerable: true }]),
        ),
      ),
    detached: (type: Making) => {
      const made = new type(new ArrayBuffer(16));
      structuredClone(made.buffer, { transfer: [made.buffer as ArrayBuffer] });
      return made;
    },
    shrunk: (type: Making) => {
      const buffer = new ArrayBuffer(16, { maxByteLength: 32 } as never) as ArrayBuffer & {
        resize(bytes: number): void;
      };
      const made = new type(buffer, 8, 1);
      buffer.resize(4);
      return made;
    },
    growing: (type: Making) => new type(new ArrayBuffer(16, { maxByteLength: 32 } as never)),
    overlapping: (type: Making) => {
      const buffer = new ArrayBuffer(24);
      return [new type(buffer, 0, 4), new type(buffer, 8, 4)];
    },
    // A typed array whose `length` is larger than its memory.
    lying: (type: Making) =>
      Object.defineProperty(new type(new ArrayBuffer(16)), 'length', { value: 1000 }),
  };
}

/** Returns the value with one change: a part is odd, left out, added or doubled. */
export function changed(value: Value, odd: Gen, random: Random): Value {
  const inside =
    'object' in value
      ? value.object.length
      : 'list' in value
        ? value.list.length
        : 'form' in value
          ? value.values.length
          : 0;
  if (inside > 0 && random.below(5) > 0) {
    const at = random.below(inside);
    if ('object' in value) {
      const [key, inner] = value.object[at] as readonly [string, Value];
      const kind = random.below(12);
      if (kind === 0) return { object: value.object.toSpliced(at, 1) };
      if (kind === 1) return { object: [...value.object, [strange(random), odd(random)]] };
      return { object: value.object.with(at, [key, changed(inner, odd, random)]) };
    }
    if ('list' in value) {
      const kind = random.below(8);
      if (kind === 0) return { list: value.list.toSpliced(at, 1) };
      if (kind === 1) return { list: value.list.toSpliced(at, 0, value.list[at] as Value) };
      return { list: value.list.with(at, changed(value.list[at] as Value, odd, random)) };
    }
    // Changes the length of an array, but never to more than the caller's machine can allocate.
    if ('form' in value && /Array(Buffer)?\(\$/.test(value.form))
      return random.below(2) === 0
        ? odd(random)
        : { ...value, values: value.values.with(0, { number: random.below(70) }) };
    if ('form' in value)
      return {
        ...value,
        values: value.values.with(at, changed(value.values[at] as Value, odd, random)),
      };
  }
  if ('number' in value && random.below(2) === 0) return numbers(random);
  return odd(random);
}

const strange = (random: Random): string =>
  ['nope', '__proto__', 'constructor', 'toString', 'length', 'shape', 'device', 'signal', '', '0'][
    random.below(10)
  ] as string;
