/** Checks the options of gymnasium(). */
import { resolve } from 'node:path';
import { checkCount, checkKeys, checkPath, describeValue } from '../../../base/checks.ts';
import { rangeError, typeError } from '../../../base/errors.ts';
import { keywords } from './keywords.ts';

/**
 * Options of gymnasium(). Either `id` or `entry` is needed, and the other options have defaults.
 */
export interface GymnasiumOptions {
  /**
   * name of a registered environment, such as 'HalfCheetah-v5'. 'ale_py:ALE/Pong-v5' imports the
   * module ale_py first
   */
  id?: string;
  /**
   * function of a Python module, 'module:function', instead of `id`. The function makes one
   * environment. If it has a parameter `num_envs`, it makes a vector environment in any of
   * Gymnasium's three autoreset modes.
   */
  entry?: string;
  /**
   * keyword arguments for the environments, default {}. Values are numbers, bigints, booleans,
   * strings, null, typed arrays (as numpy arrays), arrays, plain objects and Maps (as dicts).
   * `environmentOptions` of train() and the `options` of the pool replace arguments of the same
   * name.
   */
  kwargs?: Readonly<Record<string, unknown>>;
  /**
   * `vectorization_mode` of `gymnasium.make_vec`, with `id` only. Default: environments are stepped
   * in turn, and each episode has its own seed
   */
  vectorization?: 'sync' | 'async' | 'vector_entry_point';
  /** folder of the module of `entry`, default '.' */
  path?: string | URL;
  /** Python program, default 'python3'. A name without a slash is looked up in PATH */
  python?: string;
  /** seconds within which the start and each step must end, more than 0, default 60 */
  timeout?: number;
  /**
   * destination of Python's output. 'kept' (default) keeps it, and errors contain its end. 'shown'
   * prints it on standard error.
   */
  output?: 'kept' | 'shown';
}

export interface GymnasiumPlan {
  id: string;
  entry: string;
  kwargs: Readonly<Record<string, unknown>>;
  vectorization: string;
  path: string;
  python: string;
  timeoutMs: number;
  output: 'kept' | 'shown';
  /** name of the environments in errors */
  name: string;
}

const modes = ['sync', 'async', 'vector_entry_point'];

/**
 * Returns the checked options with defaults. Throws a TypeError or RangeError that names the
 * option.
 */
export function checkedGymnasium(options: GymnasiumOptions): GymnasiumPlan {
  checkKeys('gymnasium', options, [
    'id',
    'entry',
    'kwargs',
    'vectorization',
    'path',
    'python',
    'timeout',
    'output',
  ]);
  const {
    id = '',
    entry = '',
    kwargs = {},
    vectorization = '',
    path = '.',
    python = 'python3',
    timeout = 60,
  } = options;
  const { output = 'kept' } = options;
  for (const [name, value] of Object.entries({ id, entry, python }))
    if (typeof value !== 'string')
      throw typeError(`${name} must be a string, got ${describeValue(value)}`);
  if ((id === '') === (entry === ''))
    throw typeError(
      "gymnasium() needs either id, such as 'CartPole-v1', or entry, such as 'my_module:make'",
    );
  if (entry !== '' && !/^[\w.]+:\w+$/.test(entry))
    throw rangeError(`entry must be 'module:function', got ${describeValue(entry)}`);
  keywords(kwargs);
  if (vectorization !== '' && (entry !== '' || !modes.includes(vectorization)))
    throw rangeError(
      entry !== ''
        ? 'vectorization needs id; a function with a parameter num_envs makes a vector environment itself'
        : `vectorization must be one of ${modes.join(', ')}, got ${describeValue(vectorization)}`,
    );
  if (typeof path !== 'string' && !(path instanceof URL))
    throw typeError(`path must be a folder, as a string or a URL, got ${describeValue(path)}`);
  if (typeof timeout !== 'number' || !(timeout > 0))
    throw rangeError(`timeout must be a number of seconds above 0, got ${describeValue(timeout)}`);
  if (output !== 'kept' && output !== 'shown')
    throw rangeError(`output must be 'kept' or 'shown', got ${describeValue(output)}`);
  const folder = checkPath('gymnasium: path', path === '' ? '.' : path);
  // The system looks up a name without a slash in PATH.
  const program = python.includes('/') ? resolve(python) : python;
  const timeoutMs = timeout * 1000;
  return {
    id,
    entry,
    kwargs,
    vectorization,
    path: folder,
    python: program,
    timeoutMs,
    output,
    name: id || entry,
  };
}

/** Checks the number of environments of one process, and returns it. */
export const checkEnvironments = (count: number): number =>
  checkCount('environments', count, 1, 2 ** 16);
