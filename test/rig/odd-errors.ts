/**
 * Odd values that a program may throw. The threads that must learn of the error must learn of each
 * of these, too.
 */

const nested = (depth: number): Error =>
  depth === 0 ? new Error('deepest') : new Error(`depth ${depth}`, { cause: nested(depth - 1) });
const having = (more: object) => Object.assign(new Error('odd'), more);
const throws = () => {
  throw new Error('not to be read');
};
const revoked = Proxy.revocable({}, {});
revoked.revoke();

export const oddErrors: Record<string, unknown> = {
  'a cause that holds itself': (() => {
    const error: Error & { cause?: unknown } = new Error('round');
    error.cause = error;
    return error;
  })(),
  'a plain cause that holds itself': (() => {
    const cause: { self?: unknown } = {};
    cause.self = cause;
    return new Error('odd', { cause });
  })(),
  'deep causes': nested(100),
  'a bigint as code': having({ code: 1n }),
  'a bigint in the cause': new Error('odd', { cause: { big: 1n } }),
  'a cause whose toJSON() throws': new Error('odd', { cause: { toJSON: throws } }),
  'a message getter that throws': Object.defineProperty(new Error(), 'message', { get: throws }),
  'a name getter that throws': Object.defineProperty(new Error('odd'), 'name', { get: throws }),
  'a code getter that throws': Object.defineProperty(new Error('odd'), 'code', { get: throws }),
  'a cause getter that throws': Object.defineProperty(new Error('odd'), 'cause', { get: throws }),
  'a stack getter that throws': Object.defineProperty(new Error('odd'), 'stack', { get: throws }),
  'an error without a message': having({ message: undefined }),
  'a number as message': having({ message: 5 }),
  'a symbol as message': having({ message: Symbol('odd') }),
  'a function as message': having({ message: () => 'odd' }),
  'an object as message': having({ message: { toString: throws } }),
  'null as message': having({ message: null }),
  'a symbol as name': having({ name: Symbol('odd') }),
  'an object as name': having({ name: { toString: throws } }),
  'a long name': having({ name: 'n'.repeat(10_000) }),
  'a name of control characters': having({ name: '\0'.repeat(10_000) }),
  'a long message': new Error('€😀'.repeat(33_333)),
  'a message of lone surrogates': new Error('\ud83d'.repeat(10_000)),
  'a long code': having({ code: 'c'.repeat(10_000) }),
  'an object without a prototype': Object.create(null),
  'a proxy': new Proxy({}, { get: throws, getPrototypeOf: throws }),
  'a revoked proxy': revoked.proxy,
  'an error in a proxy': new Proxy(new Error('odd'), { get: throws, has: throws }),
  undefined: undefined,
  null: null,
  'a bigint': 1n,
  'a symbol': Symbol('odd'),
  'a string': 'odd',
};
