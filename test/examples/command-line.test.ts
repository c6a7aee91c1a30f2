/**
 * Tests how an example ends. A refusal prints one sentence and sets its exit code. Any other error
 * is printed with its stack.
 */
import { expect } from 'chai';
import {
  choice,
  commandLine,
  flag,
  positive,
  Refused,
  real,
  runExample,
  text,
  time,
  UsageError,
  whole,
} from '../../examples/command-line.ts';
import { monitor } from '../../examples/monitor.ts';

/** Ends an example with this error. Returns what it writes to stderr, and its exit code. */
async function ending(error: unknown) {
  const { exitCode } = process;
  const { write } = process.stderr;
  let said = '';
  process.stderr.write = (text) => {
    said += text;
    return true;
  };
  try {
    await runExample({ name: 'x', help: '', parse: () => ({}), main: () => Promise.reject(error) });
    return [process.exitCode, said];
  } finally {
    process.stderr.write = write;
    process.exitCode = exitCode;
  }
}
const coded = (code: string, more: object = {}) =>
  Object.assign(new Error('it cannot'), { code, ...more });

describe('command line of the examples', () => {
  it('runExample() prints a Refused as one sentence, and points to --help for a UsageError', async () => {
    expect(await ending(new Refused('no'))).to.deep.equal([1, 'x: no\n']);
    expect(await ending(new UsageError('no'))).to.deep.equal([2, 'x: no; see --help\n']);
  });

  it('runExample() prints device and memory errors with their advice, also from a cause', async () => {
    const device = coded('ERR_HOTSLOT_DEVICE', { advice: 'close it' });
    expect(await ending(device)).to.deep.equal([1, 'x: it cannot; close it\n']);
    const failed = new Error('replay failed', { cause: new Error('inside', { cause: device }) });
    expect(await ending(failed)).to.deep.equal([1, 'x: it cannot; close it\n']);
    expect(await ending(coded('ERR_HOTSLOT_MEMORY'))).to.deep.equal([1, 'x: it cannot\n']);
  });

  it('runExample() rejects with every other error unchanged', async () => {
    for (const fault of [new Error('a fault'), coded('ERR_HOTSLOT_RANGE'), 'a text', null])
      expect(await ending(fault).catch((error) => ({ error }))).to.deep.equal({ error: fault });
  });

  const parsed = <const T extends Parameters<typeof commandLine>[0]['options']>(options: T) =>
    commandLine({ intro: 'x', usage: 'x', options, after: 'x' });

  it('parse() returns null for --help, and throws UsageError for invalid arguments', () => {
    const { parse } = parsed({ n: whole('a number', { min: -5, default: 1 }) });
    expect(parse(['--help', '--n', 'x'])).to.equal(null);
    expect(parse(['-h'])).to.equal(null);
    expect(parse([])).to.deep.equal({ n: 1 });
    expect(parse(['--n', '-3'])).to.deep.equal({ n: -3 });
    const wrong: [string[], string][] = [
      [['--n'], '--n needs a value'],
      [['--n', '--help'], '--n needs a value'],
      [['--n', '1', '--n', '2'], '--n is given twice'],
      [['--m', '1'], "unknown option '--m'"],
      [['--toString', '1'], "unknown option '--toString'"],
      [['n'], "there is no argument 'n'"],
      [['--n', '1.5'], "--n must be a whole number of at least -5, got '1.5'"],
      [['--n', ''], "--n must be a whole number of at least -5, got ''"],
      [['--help=1'], "--help takes no value, got '1'"],
    ];
    for (const [args, message] of wrong)
      expect(() => parse(args), args.join(' ')).to.throw(UsageError, message);
  });

  it('parse() returns the value or default of each kind of option, and rejects other texts', () => {
    const { parse } = parsed({
      how: choice('HOW', ['fast', 'Slow'], 'a way'),
      share: real('a share', { min: 0, max: 1, default: 0.5 }),
      limit: positive('a limit', { shown: 'none' }),
      file: text('FILE', 'a file', 'a file', { default: 'x' }),
      every: time('a time'),
      quiet: flag('quiet'),
    });
    const omitted = { how: undefined, share: 0.5, limit: undefined, file: 'x', every: undefined };
    expect(parse([])).to.deep.equal({ ...omitted, quiet: false });
    expect(
      parse(['--how=slow', '--share=0', '--limit=2', '--every=5min', '--quiet']),
    ).to.deep.equal({
      how: 'Slow',
      share: 0,
      limit: 2,
      file: 'x',
      every: '5min',
      quiet: true,
    });
    for (const [args, message] of [
      ['--how=x', "--how must be fast or Slow, got 'x'"],
      ['--share=2', "--share must be a number from 0 to 1, got '2'"],
      ['--share=', "--share must be a number from 0 to 1, got ''"],
      ['--limit=0', "--limit must be a number above 0, got '0'"],
      ['--file=', "--file must name a file, got ''"],
      ['--every=5', "--every must be a number of ms, s, min or h, such as 60s, got '5'"],
    ] as const)
      expect(() => parse([args]), args).to.throw(UsageError, message);
  });

  it('parse() takes an optional value only if the next argument begins with a digit', () => {
    const { parse } = parsed({ at: monitor, n: text('N', 'a number', 'n'), quiet: flag('') });
    const at = (...args: string[]) => parse(args)?.at;
    expect(at()).to.equal(undefined);
    expect([at('--at'), at('--at', '--quiet'), at('--at', '--n', '3')]).to.deep.equal([
      null,
      null,
      null,
    ]);
    expect([at('--at', '80'), at('--at=80'), at('--at', '80', '--quiet')]).to.deep.equal([
      80, 80, 80,
    ]);
    expect(() => at('--at', 'x')).to.throw(UsageError, "there is no argument 'x'");
    expect(() => at('--at', '--at', '1')).to.throw(UsageError, '--at is given twice');
    expect(() => at('--at=70000')).to.throw(
      UsageError,
      '--at must be a whole number from 0 to 65535',
    );
  });

  it('help lists each option with its default in at most 80 columns', () => {
    const { help } = commandLine({
      intro: 'Does something that takes more than one line of eighty columns to describe in full.',
      usage: 'node x.js [options]',
      options: {
        n: whole('a number whose description is so long that it needs another line of the text', {
          min: 0,
          default: 7,
        }),
        quiet: flag('only the summary'),
      },
      after: 'exit code: 0 success',
    });
    expect(help.split('\n').every((line) => line.length <= 80)).to.equal(true);
    expect(help).to.match(/^ {2}--n N +a number .*\n +.*\(default 7\)$/m);
    expect(help).to.match(/^ {2}--quiet +only the summary$/m);
    expect(help).to.match(/^ {2}--help +this text$/m);
  });
});
