/**
 * The facts that `raw_cuda facts` tells of a driver (bench/native/cuda_facts.hpp), and where two
 * drivers differ in them.
 */

/** By 'part.name'. */
export type Facts = Readonly<Record<string, unknown>>;

/** Of a line of JSON per fact; half a line is none. */
export function factsOf(text: string): Facts {
  const lines = text.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as Record<string, unknown>];
    } catch {
      return [];
    }
  });
  return Object.fromEntries(
    lines.flatMap(({ part, ...fact }) =>
      Object.entries(fact).map(([name, value]) => [`${part}.${name}`, value]),
    ),
  );
}

/**
 * What a fact says of the driver, without what is one machine's: whether a call waited for other
 * work, and nothing of costs.
 */
function meaning(name: string, value: unknown): unknown {
  if (value === undefined) return 'not told';
  if (/\.(device|cublas)$/.test(name)) return 'a name';
  if (/\.(us|seconds|bytes|msOf|msUntilPrefetched|msInCapture)/.test(name)) return 'a cost';
  if (!/\.ms/.test(name)) return value;
  const ms = value as number;
  return ms < 20 ? 'at once' : ms < 60 ? 'for a while' : 'waits';
}

/** The names of the facts that say something else. */
export const differences = (a: Facts, b: Facts): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    (name) => meaning(name, a[name]) !== meaning(name, b[name]),
  );
