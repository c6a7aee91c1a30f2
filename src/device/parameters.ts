/**
 * The interface of a module: it returns its parameters with their names, as PyTorch's modules do.
 */

interface Module {
  namedParameters(): Iterable<readonly [string, unknown]>;
}

export function hasParameters(value: unknown): value is Module {
  return typeof (value as Partial<Module> | null | undefined)?.namedParameters === 'function';
}
