/**
 * How an example ends: refusals are one sentence and an exit code, anything else is a fault with
 * its stack.
 */
import { expect } from 'chai';
import {
  flag,
  parseOptions,
  Refused,
  runExample,
  UsageError,
} from '../../examples/command-line.ts';
import { monitorPort } from '../../examples/monitor.ts';

/** What an example that ends with this error writes to stderr, and its exit code. */
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

describe('examples/command-line', () => {
  it('a refusal is a sentence, wrong usage points to --help', async () => {
    expect(await ending(new Refused('no'))).to.deep.equal([1, 'x: no\n']);
    expect(await ending(new UsageError('no'))).to.deep.equal([2, 'x: no; --help says more\n']);
  });

  it('what the machine refuses is told with its advice, also as the cause of another error', async () => {
    const device = coded('ERR_HOTSLOT_DEVICE', { advice: 'close it' });
    expect(await ending(device)).to.deep.equal([1, 'x: it cannot; close it\n']);
    const failed = new Error('replay failed', { cause: new Error('inside', { cause: device }) });
    expect(await ending(failed)).to.deep.equal([1, 'x: it cannot; close it\n']);
    expect(await ending(coded('ERR_HOTSLOT_MEMORY'))).to.deep.equal([1, 'x: it cannot\n']);
  });

  it('any other error is thrown on, whatever it is', async () => {
    for (const fault of [new Error('a fault'), coded('ERR_HOTSLOT_RANGE'), 'a text', null])
      expect(await ending(fault).catch((error) => ({ error }))).to.deep.equal({ error: fault });
  });

  it('--help is known everywhere, and comes before what is wrong with values', () => {
    const options = { n: { type: 'string', default: '1' } } as const;
    expect(parseOptions(['--help', '--n', 'x'], options)).to.equal(null);
    expect(parseOptions(['--n', '-3'], options)).to.include({ n: '-3' });
    expect(() => parseOptions(['--n'], options)).to.throw(UsageError, '--n needs a value');
    expect(() => parseOptions(['--n', '--help'], options)).to.throw(
      UsageError,
      '--n needs a value',
    );
    expect(() => parseOptions(['--n', '1', '--n', '2'], options)).to.throw(
      UsageError,
      '--n is given twice',
    );
    expect(() => parseOptions(['--m', '1'], options)).to.throw(UsageError, "unknown option '--m'");
    expect(() => parseOptions(['n'], options)).to.throw(UsageError, "there is no argument 'n'");
    expect(parseOptions(['-h'], options)).to.equal(null);
  });

  it('an option whose value may be left out takes what begins with a digit, and nothing else', () => {
    const options = {
      at: { type: 'string', bare: '' },
      n: { type: 'string' },
      quiet: flag,
    } as const;
    const at = (...args: string[]) => parseOptions(args, options)?.at;
    expect(at()).to.equal(undefined);
    expect([at('--at'), at('--at', '--quiet'), at('--at', '--n', '3')]).to.deep.equal(['', '', '']);
    expect([
      at('--at', '80'),
      at('--at=80'),
      at('--at', '80', '--quiet'),
      at('--at=x'),
    ]).to.deep.equal(['80', '80', '80', 'x']);
    expect(() => at('--at', 'x')).to.throw(UsageError, "there is no argument 'x'");
    expect(() => at('--at', '--at', '1')).to.throw(UsageError, '--at is given twice');
    expect(monitorPort('')).to.equal(null);
    expect(() => monitorPort('70000')).to.throw(
      UsageError,
      '--monitor must be a whole number from 0 to 65535',
    );
  });
});
