/**
 * Finds the targets of calls in live objects: exports, static methods, constructors, methods,
 * getters and setters.
 */
import { doors, type Things } from './world.ts';

export interface Target {
  /** the call, with `$*` for its arguments; a getter has no `$*` */
  readonly form: string;
  /** its row in the table of right arguments */
  readonly key: string;
  /** how often it is called, relative to 1 */
  readonly weight: number;
  readonly takes: boolean;
}

type Callable = (...args: unknown[]) => unknown;
const isClass = (value: unknown): value is Callable =>
  typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value));

/** Members of another package, and protected members, which subclasses use. */
const leftOut =
  /^(constructor|own|making|checkOpen|keep|on|once|off|addListener|removeListener|removeAllListeners|emit|eventNames|listeners|listenerCount|release|checkReady|arrays)$/;
const closing = /^(close|closeSync|finalize|resetGraph)$/;
const weightOf = (name: string) => (closing.test(name) ? 0.05 : 1);

/** Returns every target of these objects and of all entry points. */
export function targetsOf(things: Things): Target[] {
  const found = new Map<string, Target>();
  const add = (form: string, key: string, name: string, takes = true) => {
    if (!found.has(form)) found.set(form, { form, key, weight: weightOf(name), takes });
  };
  for (const [door, exported] of Object.entries(doors))
    for (const [name, value] of Object.entries(exported as Record<string, unknown>))
      exports(`${door}.${name}`, name, value);

  function exports(path: string, name: string, value: unknown): void {
    if (isClass(value)) {
      add(`new ${path}($*)`, `new ${name}`, name);
      for (const each of Object.getOwnPropertyNames(value))
        if (typeof (value as unknown as Record<string, unknown>)[each] === 'function')
          add(`${path}.${each}($*)`, `${name}.${each}`, each);
    } else if (typeof value === 'function') add(`${path}($*)`, name, name);
    else if (typeof value === 'object' && value !== null && !Array.isArray(value))
      for (const [each, inner] of Object.entries(value))
        if (typeof inner === 'function' || name === 'ops')
          exports(`${path}.${each}`, `${name}.${each}`, inner);
  }

  const ends: unknown[] = [null, Object.prototype, Function.prototype, Error];
  for (const [name, thing] of Object.entries(things)) {
    const kind = thing.constructor?.name ?? 'Object';
    for (let at = thing; !ends.includes(at); at = Object.getPrototypeOf(at) as object)
      for (const [each, { value, get, set }] of Object.entries(
        Object.getOwnPropertyDescriptors(at),
      )) {
        if (leftOut.test(each) || isClass(value)) continue;
        const key = `${kind}.${each}`;
        if (typeof value === 'function') add(`w.${name}.${each}($*)`, key, each);
        if (get) add(`w.${name}.${each}`, key, each, false);
        if (set) add(`w.${name}.${each} = $`, `${key}=`, each);
      }
  }
  return [...found.values()];
}
