/**
 * Parses the facts that `raw_cuda facts` prints about a driver (bench/native/cuda_facts.hpp), and
 * compares those of two drivers.
 */

/** The value of each fact, by 'part.name'. */
export type Facts = Readonly<Record<string, unknown>>;

/** Parses one fact from each line of JSON, and skips incomplete lines. */
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
 * Returns what a fact says about the driver, without the differences between machines. A duration
 * becomes 'at once', 'for a while' or 'waits', and a cost or a name becomes a constant.
 */
function meaning(name: string, value: unknown): unknown {
  if (value === undefined) return 'not told';
  if (/\.(device|cublas)$/.test(name)) return 'a name';
  if (/\.(us|seconds|bytes|msOf|msUntilPrefetched|msInCapture)/.test(name)) return 'a cost';
  if (!/\.ms/.test(name)) return value;
  const ms = value as number;
  return ms < 20 ? 'at once' : ms < 60 ? 'for a while' : 'waits';
}

/** Returns the names of the facts that differ in meaning. */
export const differences = (a: Facts, b: Facts): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter(
    (name) => meaning(name, a[name]) !== meaning(name, b[name]),
  );
