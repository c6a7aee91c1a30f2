/** The options of gymnasium(), checked. */
import { resolve } from 'node:path';
import { checkCount, checkKeys, checkPath, describeValue } from '../../../base/checks.ts';
import { rangeError, typeError } from '../../../base/errors.ts';
import { keywords } from './keywords.ts';

export interface GymnasiumOptions {
  /**
   * a registered environment, such as 'HalfCheetah-v5' ('ale_py:ALE/Pong-v5' imports a module
   * first)
   */
  id?: string;
  /**
   * instead of `id`: 'module:function', which makes one environment, or, if it has a parameter
   * `num_envs`, a vector environment in any of Gymnasium's three autoreset modes
   */
  entry?: string;
  /**
   * Keyword arguments: numbers, bigints, booleans, strings, null, typed arrays (as numpy arrays),
   * arrays, plain objects and Maps (as dicts). `environmentOptions` of train() and the options of
   * the pool replace those of the same name.
   */
  kwargs?: Readonly<Record<string, unknown>>;
  /**
   * with `id`: the argument of `gymnasium.make_vec`, default: environments stepped in turn, each
   * with its own seed
   */
  vectorization?: 'sync' | 'async' | 'vector_entry_point';
  /** folder of the module, default: the current one */
  path?: string | URL;
  /** default 'python3' */
  python?: string;
  /** seconds within which a step or the start must end, default 60 */
  timeout?: number;
  /**
   * destination of its output: 'kept', so that errors contain its end, or 'shown' on standard
   * error, default 'kept'
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
  /** its name in errors */
  name: string;
}

const modes = ['sync', 'async', 'vector_entry_point'];

/** Throws a TypeError or RangeError that names the option. */
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
  // A name without a slash is looked up in PATH.
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

/** Checks the number of environments that one process steps. */
export const checkEnvironments = (count: number): number =>
  checkCount('environments', count, 1, 2 ** 16);
