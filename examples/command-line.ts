/**
 * What the examples' command lines share: wrong usage is one sentence and exit code 2, and text
 * fits the terminal.
 */
import { closeSync, openSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { type Device, openDevice } from '../src/index.ts';

/** Ends an example with exit code 1; the message is the sentence to print. */
export class Refused extends Error {}
/** Ends it with exit code 2. */
export class UsageError extends Refused {}

/** What a machine refuses, whose texts say what would help. */
const machine = ['ERR_HOTSLOT_UNAVAILABLE', 'ERR_HOTSLOT_DEVICE', 'ERR_HOTSLOT_MEMORY'];

export interface Example<T> {
  name: string;
  help: string;
  /** Throws UsageError; null: --help was asked for. */
  parse: (args: readonly string[]) => T | null;
  /** Gives the exit code. */
  main: (commandLine: T) => Promise<number>;
}

/** Runs an example. Refusals are one sentence, any other error is a fault and keeps its stack. */
export async function runExample<T>({ name, help, parse, main }: Example<T>): Promise<void> {
  try {
    const commandLine = parse(process.argv.slice(2));
    if (commandLine) process.exitCode = await main(commandLine);
    else process.stdout.write(help);
  } catch (error) {
    const { message, advice } = refusalIn(error);
    const usage = error instanceof UsageError;
    process.stderr.write(
      `${name}: ${message}${usage ? '; --help says more' : advice ? `; ${advice}` : ''}\n`,
    );
    process.exitCode = usage ? 2 : 1;
  }
}

/**
 * The error, or the first of its causes, that a user can act on. Throws the error when there is
 * none.
 */
function refusalIn(error: unknown): Error & { advice?: string } {
  for (let at = error; at instanceof Error; at = at.cause)
    if (at instanceof Refused || machine.includes((at as { code?: string }).code ?? '')) return at;
  throw error;
}

export const flag = { type: 'boolean', default: false } as const;

/**
 * As node:util's parseArgs takes them; a flag has a default. `bare`: what an option says whose
 * value may be left out.
 */
type Option =
  | { type: 'string'; default?: string; bare?: string }
  | { type: 'boolean'; default: false };
type Values<T> = {
  [Name in keyof T]: T[Name] extends { type: 'boolean' }
    ? boolean
    : T[Name] extends { default: string }
      ? string
      : string | undefined;
};

/**
 * The options' values; null: --help was asked for. Throws UsageError for what there is none of, or
 * is given twice.
 */
export function parseOptions<T extends Record<string, Option>>(
  args: readonly string[],
  options: T,
): Values<T> | null {
  const known: Record<string, Option & { short?: string }> = {
    ...options,
    help: { ...flag, short: 'h' },
  };
  const { tokens } = parseArgs({
    args: joined(args, known),
    options: known,
    strict: false,
    tokens: true,
  });
  const values: Record<string, string | boolean | undefined> = {};
  for (const token of tokens) {
    if (token.kind === 'positional') throw new UsageError(`there is no argument '${token.value}'`);
    if (token.kind === 'option-terminator') continue;
    const { name, rawName, value } = token;
    const option = Object.hasOwn(known, name) ? known[name] : undefined;
    if (!option) throw new UsageError(`unknown option '${rawName}'`);
    if (name in values) throw new UsageError(`${rawName} is given twice`);
    if (option.type === 'boolean' && value !== undefined)
      throw new UsageError(`${rawName} takes no value, got '${value}'`);
    // What follows a string option is taken for its value, even if it looks like an option.
    if (
      option.type === 'string' &&
      (value === undefined || (!token.inlineValue && /^-./.test(value)))
    )
      throw new UsageError(`${rawName} needs a value`);
    values[name] = value ?? true;
  }
  if (values.help) return null;
  return Object.fromEntries(
    Object.entries(options).map(([name, { default: otherwise }]) => [
      name,
      values[name] ?? otherwise,
    ]),
  ) as Values<T>;
}

/**
 * A negative number is the value of the option before it, whose own check says what it must be. An
 * option whose value may be left out has what follows for its value only where that begins with a
 * digit.
 */
function joined(args: readonly string[], options: Record<string, Option>): string[] {
  const all: string[] = [];
  const bareOf = (arg: string): string | undefined => {
    const name = arg.slice(2);
    const option = arg.startsWith('--') && Object.hasOwn(options, name) ? options[name] : undefined;
    return option?.type === 'string' ? option.bare : undefined;
  };
  for (const arg of args) {
    const before = all.at(-1) ?? '';
    const named = /^--[^=]+$/.test(before);
    if (named && (/^-[\d.]/.test(arg) || (/^\d/.test(arg) && bareOf(before) !== undefined)))
      all[all.length - 1] = `${before}=${arg}`;
    else all.push(arg);
  }
  return all.map((arg) => (bareOf(arg) === undefined ? arg : `${arg}=${bareOf(arg)}`));
}

export function whole(
  name: string,
  text: string,
  least: number,
  most = Number.MAX_SAFE_INTEGER,
): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isSafeInteger(value) && value >= least && value <= most)
    return value;
  const range =
    most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`;
  throw new UsageError(`--${name} must be a whole number ${range}, got '${text}'`);
}

export function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new UsageError(`--${name} must be a number above 0, got '${text}'`);
  return value;
}

/** What --checkpoint and --every say. */
export function checkpointOf(
  folder: string | undefined,
  every: string | undefined,
): { folder: string; every?: string } | undefined {
  if (folder === '') throw new UsageError("--checkpoint must name a folder, got ''");
  if (every !== undefined && folder === undefined)
    throw new UsageError('--every goes with --checkpoint');
  if (every !== undefined && !/^\s*\d+(\.\d+)?\s*(ms|s|min|h)\s*$/.test(every))
    throw new UsageError(
      `--every must be a number of ms, s, min or h, such as 60s, got '${every}'`,
    );
  return folder === undefined ? undefined : { folder, ...(every !== undefined && { every }) };
}

/**
 * Does something to a file that an option names; one clear sentence if that cannot be opened or
 * written.
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

/**
 * Call it before the run, which would else be in vain. The file's contents stay until there is
 * something better.
 */
export function checkWritable(option: string, file: string | undefined, Refusal = Refused): void {
  if (file !== undefined) toFile(option, file, (file) => closeSync(openSync(file, 'a')), Refusal);
}

/** Opens a device; one that is unknown or unavailable is wrong usage. */
export function deviceNamed(name: string): Device {
  try {
    return openDevice(name);
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (code === 'ERR_HOTSLOT_UNKNOWN_DEVICE' || code === 'ERR_HOTSLOT_UNAVAILABLE')
      throw new UsageError(message);
    throw error;
  }
}

/** The terminal's width; 80 for a file or a pipe. */
export const terminalColumns = () => Math.max(60, process.stdout.columns || 80);

/** `text` broken between words, so that no line is longer than `columns`. */
export function wrapped(text: string, columns = terminalColumns()): string {
  const lines = text.split('\n').flatMap((paragraph) => {
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

/** Aborts at Ctrl-C; a second one ends the process at once. */
export function interruption(): AbortSignal {
  const stop = new AbortController();
  process.once('SIGINT', () => stop.abort());
  return stop.signal;
}
