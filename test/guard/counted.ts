/**
 * Makes native functions count their calls and the bytes that they copy. Must run in its own
 * process, before any addon loads.
 */
import { basename } from 'node:path';

type Native = (this: unknown, ...args: unknown[]) => unknown;

/** Number of calls by name, and bytes of the calls that copy. */
export interface Tally {
  calls: Record<string, number>;
  bytes: Record<string, number>;
}

/** Returns how many bytes a call copies, from its arguments. */
const bytesOf: Readonly<Record<string, (args: readonly unknown[]) => number>> = {
  'Submitter.submit': ([, bytes]) => bytes as number,
  'device.copy': (args) => args[5] as number,
  'device.write': (args) => (args[3] as Uint8Array).byteLength,
  'device.copyOut': ([, to]) => (to as Uint8Array).byteLength,
};

let tally: Tally = { calls: {}, bytes: {} };
let counting = false;

/** Runs `act` without counting, for calls that a test makes to wait or check. */
export function uncounted<T>(act: () => T): T {
  const before = counting;
  counting = false;
  try {
    return act();
  } finally {
    counting = before;
  }
}

/** Runs `act` and returns the calls that it made. */
export function tallyOf(act: () => void): Tally {
  tally = { calls: {}, bytes: {} };
  counting = true;
  try {
    act();
  } finally {
    counting = false;
  }
  return tally;
}

const counted = (name: string, plain: Native): Native =>
  function (this: unknown, ...args) {
    if (counting) {
      tally.calls[name] = (tally.calls[name] ?? 0) + 1;
      const bytes = bytesOf[name]?.(args);
      if (bytes !== undefined) tally.bytes[name] = (tally.bytes[name] ?? 0) + bytes;
    }
    return plain.apply(this, args);
  };

/** Returns a class whose methods count their calls. */
function countedClass(name: string, Plain: new (...args: unknown[]) => object): unknown {
  const Counted = class extends Plain {};
  for (const method of Object.getOwnPropertyNames(Plain.prototype)) {
    if (method === 'constructor') continue;
    const plain = (Plain.prototype as Record<string, unknown>)[method];
    if (typeof plain === 'function')
      Object.defineProperty(Counted.prototype, method, {
        value: counted(`${name}.${method}`, plain as Native),
      });
  }
  return Counted;
}

/** Makes every addon that loads from now on count its calls. */
export function countAddons(): void {
  const plain = process.dlopen;
  process.dlopen = (module: object, path: string, ...flags: never[]) => {
    plain.call(process, module, path, ...flags);
    const of = module as { exports: Record<string, unknown> };
    of.exports = countedObject(basename(path, '.node'), of.exports);
  };
}

/**
 * Returns an addon's exports, or a nested object of them, with counting functions. The functions
 * are named after the addon.
 */
function countedObject(name: string, plain: Record<string, unknown>): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  for (const [key, each] of Object.entries(plain)) {
    const isClass =
      typeof each === 'function' && Object.getOwnPropertyNames(each.prototype ?? {}).length > 1;
    if (isClass) made[key] = countedClass(key, each as new (...args: unknown[]) => object);
    else if (typeof each === 'function') made[key] = counted(`${name}.${key}`, each as Native);
    // Externals are left alone: they have no prototype.
    else if (
      typeof each === 'object' &&
      each !== null &&
      Object.getPrototypeOf(each) === Object.prototype
    )
      made[key] = countedObject(name, each as Record<string, unknown>);
    else made[key] = each;
  }
  return made;
}
