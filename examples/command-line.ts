/**
 * Command lines of the examples. A table of options defines the help text, the checks and the types
 * of the values. Wrong usage prints one line and exits with code 2.
 */
import { closeSync, openSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Device, openDevice, type Products } from '../src/index.ts';

/** Ends an example with exit code 1. runExample() prints the message as one line. */
export class Refused extends Error {}
/** Ends an example with exit code 2, for wrong usage. */
export class UsageError extends Refused {}

/** Codes of errors that depend on the machine. Their messages say what to do. */
const machine = ['ERR_HOTSLOT_UNAVAILABLE', 'ERR_HOTSLOT_DEVICE', 'ERR_HOTSLOT_MEMORY'];

export interface Example<T> {
  name: string;
  help: string;
  /** Returns the values, or null if --help was given. Throws UsageError. */
  parse: (args: readonly string[]) => T | null;
  /** Runs the example and returns its exit code. */
  main: (commandLine: T) => Promise<number>;
}

/**
 * Runs an example. Prints one line for a Refused error or an error of the machine. Any other error
 * is a fault, and the process ends with its stack.
 */
export async function runExample<T>({ name, help, parse, main }: Example<T>): Promise<void> {
  try {
    const commandLine = parse(process.argv.slice(2));
    if (commandLine) process.exitCode = await main(commandLine);
    else process.stdout.write(help);
  } catch (error) {
    const { message, advice } = refusalIn(error);
    const usage = error instanceof UsageError;
    process.stderr.write(
      `${name}: ${message}${usage ? '; see --help' : advice ? `; ${advice}` : ''}\n`,
    );
    process.exitCode = usage ? 2 : 1;
  }
}

/**
 * Returns the first error in the chain of causes that a user can act on. Throws `error` if there is
 * none.
 */
function refusalIn(error: unknown): Error & { advice?: string } {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof Refused || machine.includes((at as { code?: string }).code ?? '')) return at;
  throw error;
}

/** An option of an example, as an entry of its table. */
export interface Option<T> {
  /** name of the value in the help text, or '' for a flag */
  placeholder: string;
  help: string;
  /** text of the default in the help text */
  shown?: string;
  /** value if the option is omitted */
  omitted: T;
  /** value if the option is given without a value of its own */
  bare?: T;
  /**
   * Returns the value that `text` stands for. Throws UsageError if the text is invalid. `name` is
   * the option's name, such as `--seed`.
   */
  read: (name: string, text: string) => T;
}
type Table = Readonly<Record<string, Option<unknown>>>;
type Values<T extends Table> = { [Name in keyof T]: T[Name] extends Option<infer V> ? V : never };

/**
 * Settings of an option. `default` is its value if it is omitted, and `shown` the text of that
 * value in the help text.
 */
interface Settings<T> {
  default?: T;
  shown?: string;
  placeholder?: string;
}
type Of<T, S> = Option<S extends { default: T } ? T : T | undefined>;

function option<T, S extends Settings<T>>(
  placeholder: string,
  help: string,
  settings: S,
  read: Option<T>['read'],
): Of<T, S> {
  const { default: omitted, shown = omitted === undefined ? undefined : String(omitted) } =
    settings;
  const made = { placeholder: settings.placeholder ?? placeholder, help, omitted, read };
  return { ...made, ...(shown !== undefined && { shown }) } as unknown as Of<T, S>;
}

export const flag = (help: string): Option<boolean> => ({
  placeholder: '',
  help,
  omitted: false,
  read: () => true,
});

/** Returns an option for a text that is not empty. `noun` says what the text names. */
export const text = <const S extends Settings<string>>(
  placeholder: string,
  noun: string,
  help: string,
  settings: S = {} as S,
) =>
  option<string, S>(placeholder, help, settings, (name, given) => {
    if (given === '') throw new UsageError(`${name} must name ${noun}, got ''`);
    return given;
  });

export const device = (help = 'auto, host:0, …') =>
  text('NAME', 'a device', help, { default: 'auto' });

export const products = (shown = 'float32') =>
  choice('NAME', ['float32', 'tf32'], "precision of cuBLAS' matrix products", { shown });

export const seed = (help: string) => whole(help, { min: 0, default: 1 });

/** Returns an option for an integer from `min` to `max`. */
export const whole = <const S extends Settings<number> & { min: number; max?: number }>(
  help: string,
  settings: S,
) =>
  option<number, S>('N', help, settings, (name, given) =>
    readWhole(name, given, settings.min, settings.max),
  );

/** Returns an option for a number above 0. */
export const positive = <const S extends Settings<number>>(help: string, settings: S = {} as S) =>
  option<number, S>('S', help, settings, readPositive);

/** Returns an option for a number from `min` to `max`, by default any number. */
export const real = <const S extends Settings<number> & { min?: number; max?: number }>(
  help: string,
  settings: S,
) =>
  option<number, S>('X', help, settings, (name, given) => {
    const { min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY } = settings;
    const value = given.trim() === '' ? Number.NaN : Number(given);
    if (value >= min && value <= max) return value;
    const range = min > Number.NEGATIVE_INFINITY ? ` from ${min} to ${max}` : '';
    throw new UsageError(`${name} must be a number${range}, got '${given}'`);
  });

/** Returns an option for one of `values`. Upper and lower case are equal. */
export const choice = <T extends string, const S extends Settings<T>>(
  placeholder: string,
  values: readonly T[],
  help: string,
  settings: S = {} as S,
) =>
  option<T, S>(placeholder, help, settings, (name, given) => {
    const found = values.find((value) => value.toLowerCase() === given.toLowerCase());
    if (found !== undefined) return found;
    throw new UsageError(`${name} must be ${anyOf(values)}, got '${given}'`);
  });

/** Returns a list such as `a, b or c`. */
const anyOf = (values: readonly string[]) =>
  [values.slice(0, -1).join(', '), ...values.slice(-1)].filter(Boolean).join(' or ');

/** Returns an option for a time, such as 60s. */
export const time = (help: string) =>
  option<string, Settings<string>>('TIME', help, {}, (name, given) => {
    if (/^\s*\d+(\.\d+)?\s*(ms|s|min|h)\s*$/.test(given)) return given;
    throw new UsageError(
      `${name} must be a number of ms, s, min or h, such as 60s, got '${given}'`,
    );
  });

export interface CommandLineOf<T extends Table> {
  help: string;
  /** Returns the options' values, or null if --help was given. Throws UsageError. */
  parse(args: readonly string[]): Values<T> | null;
}

/**
 * Returns the command line that a table of options defines. In the help text, `intro` says what the
 * program does and `usage` how to call it. The text `after` follows the options.
 */
export function commandLine<const T extends Table>({
  intro,
  usage,
  options,
  after,
}: {
  intro: string;
  usage: string;
  options: T;
  after: string;
}): CommandLineOf<T> {
  const rows = Object.entries({ ...options, help: flag('this text') }).map(
    ([name, { placeholder, help, shown }]) =>
      [
        `  --${name}${placeholder && ` ${placeholder}`}`,
        shown === undefined ? help : `${help} (default ${shown})`,
      ] as const,
  );
  const width = Math.max(...rows.map(([head]) => head.length)) + 2;
  const lines = rows.map(([head, help]) => {
    const [first = '', ...more] = wrapped(help, 80 - width).split('\n');
    return [head.padEnd(width) + first, ...more.map((line) => ' '.repeat(width) + line)].join('\n');
  });
  return {
    help: `${wrapped(intro, 80)}\n\nusage: ${usage}\n\n${lines.join('\n')}\n\n${wrapped(after, 80)}\n`,
    parse: (args) => parseOptions(args, options),
  };
}

function parseOptions<T extends Table>(args: readonly string[], options: T): Values<T> | null {
  const known = { ...options, help: flag('') } as Table;
  const { tokens } = parseArgs({
    args: joined(args, known),
    options: Object.fromEntries(
      Object.entries(known).map(([name, { placeholder }]) => [
        name,
        {
          type: placeholder === '' ? ('boolean' as const) : ('string' as const),
          ...(name === 'help' && { short: 'h' }),
        },
      ]),
    ),
    strict: false,
    tokens: true,
  });
  const values = new Map<string, unknown>();
  const texts = new Map<string, string | undefined>();
  for (const token of tokens) {
    if (token.kind === 'positional') throw new UsageError(`there is no argument '${token.value}'`);
    if (token.kind === 'option-terminator') continue;
    const { name, rawName, value } = token;
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!option) throw new UsageError(`unknown option '${rawName}'`);
    if (texts.has(name)) throw new UsageError(`${rawName} is given twice`);
    const isFlag = option.placeholder === '';
    if (isFlag && value !== undefined)
      throw new UsageError(`${rawName} takes no value, got '${value}'`);
    // parseArgs() takes the argument after such an option as its value, even if that argument is
    // another option. So a value that begins with '-' counts as missing.
    if (!isFlag && (value === undefined || (!token.inlineValue && /^-./.test(value))))
      throw new UsageError(`${rawName} needs a value`);
    texts.set(name, value);
  }
  if (texts.has('help')) return null;
  for (const [name, { omitted, bare, read }] of Object.entries(options)) {
    const given = texts.get(name) ?? '';
    const isBare = given === '' && bare !== undefined;
    values.set(name, !texts.has(name) ? omitted : isBare ? bare : read(`--${name}`, given));
  }
  return Object.fromEntries(values) as Values<T>;
}

/**
 * Joins a negative number with the option before it, so that the option's own check reads the
 * number. An option whose value is optional is joined with the next argument only if that argument
 * begins with a digit.
 */
function joined(args: readonly string[], options: Table): string[] {
  const all: string[] = [];
  const isBare = (arg: string): boolean => {
    const name = arg.slice(2);
    return (
      arg.startsWith('--') && Object.hasOwn(options, name) && options[name]?.bare !== undefined
    );
  };
  for (const arg of args) {
    const before = all.at(-1) ?? '';
    const named = /^--[^=]+$/.test(before);
    if (named && (/^-[\d.]/.test(arg) || (/^\d/.test(arg) && isBare(before))))
      all[all.length - 1] = `${before}=${arg}`;
    else all.push(arg);
  }
  return all.map((arg) => (isBare(arg) ? `${arg}=` : arg));
}

export function readWhole(
  name: string,
  given: string,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
): number {
  const value = Number(given);
  if (given.trim() !== '' && Number.isSafeInteger(value) && value >= min && value <= max)
    return value;
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  throw new UsageError(`${name} must be a whole number ${range}, got '${given}'`);
}

function readPositive(name: string, given: string): number {
  const value = Number(given);
  if (!(value > 0)) throw new UsageError(`${name} must be a number above 0, got '${given}'`);
  return value;
}

/**
 * Returns the checkpoint options that --checkpoint and --every stand for, or undefined without
 * --checkpoint.
 */
export function checkpointOf(
  folder: string | undefined,
  every: string | undefined,
): { folder: string; every?: string } | undefined {
  if (every !== undefined && folder === undefined)
    throw new UsageError('--every needs --checkpoint');
  return folder === undefined ? undefined : { folder, ...(every !== undefined && { every }) };
}

/**
 * Calls `act` with the file of an option, and returns its result. Throws `Refusal` with one line if
 * `act` throws.
 */
export function toFile<T>(
  option: string,
  file: string,
  act: (file: string) => T,
  Refusal = Refused,
): T {
  try {
    return act(file);
  } catch (error) {
    throw new Refusal(`--${option} ${file} cannot be written: ${(error as Error).message}`);
  }
}

/** Throws before a run if its file cannot be written. Keeps the contents of the file. */
export function checkWritable(option: string, file: string | undefined, Refusal = Refused): void {
  if (file !== undefined) toFile(option, file, (file) => closeSync(openSync(file, 'a')), Refusal);
}

/** Opens a device. Throws UsageError for an unknown or unavailable device. */
export function deviceNamed(name: string, products?: Products): Device {
  try {
    return openDevice(name, { products });
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (code === 'ERR_HOTSLOT_UNKNOWN_DEVICE' || code === 'ERR_HOTSLOT_UNAVAILABLE')
      throw new UsageError(message);
    throw error;
  }
}

/** Returns the width of the terminal, at least 60, or 80 if the output is a file or a pipe. */
export const terminalColumns = () => Math.max(60, process.stdout.columns || 80);

/** Breaks `long` between words so that lines have at most `columns` characters. */
export function wrapped(long: string, columns = terminalColumns()): string {
  const lines = long.split('\n').flatMap((paragraph) => {
    if (paragraph.length <= columns) return paragraph;
    return paragraph.split(' ').reduce<string[]>((lines, word) => {
      const last = lines.at(-1);
      if (last === undefined || last.length + 1 + word.length > columns) lines.push(word);
      else lines[lines.length - 1] = `${last} ${word}`;
      return lines;
    }, []);
  });
  return lines.join('\n');
}

/** Returns a signal that aborts at the first Ctrl-C. A second Ctrl-C ends the process at once. */
export function interruption(): AbortSignal {
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  return stop.signal;
}
