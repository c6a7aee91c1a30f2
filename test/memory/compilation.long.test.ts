/**
 * Tests how a process finds out about managed memory: once, in bounded time, and with the same
 * result in every thread.
 */
import { expect } from 'chai';
import { CompilationState, compileAllocator } from '../../src/entries/memory.ts';
import { run } from '../cli/run-command.ts';
import { rejection } from '../rig/refusal.ts';
import { describeAll, itAll } from '../rig/setting.ts';

interface Look {
  state: string;
  error: string | null;
  timeout: boolean;
  message: string;
  refused: string[];
  text: string;
  causeIsError: boolean;
}

/**
 * Runs a scenario in a process that must end by itself. Returns its result and Hotslot's warnings.
 */
async function scenario<T>(name: string): Promise<{ seen: T; warnings: string[]; stderr: string }> {
  const { code, stdout, stderr } = await run('test/memory/scenario.js', [name]);
  expect(code, stderr).to.equal(0);
  const { seen, warnings } = JSON.parse(stdout) as { seen: T; warnings: string[] };
  return { seen, warnings: warnings.filter((text) => text.startsWith('UnifiedMemory')), stderr };
}

describeAll('memory/compilation', () => {
  it('CompilationState is a frozen object of strings', () => {
    expect(CompilationState).to.deep.equal({
      unattempted: 'unattempted',
      success: 'success',
      failure: 'failure',
    });
    expect(Object.isFrozen(CompilationState)).to.equal(true);
  });

  it('compileAllocator() rejects invalid options, with the values', async () => {
    const refused = async (options: object) => (await rejection(compileAllocator(options))).message;
    expect(await refused({ timeout: 5 })).to.match(/unknown option 'timeout'.*timeoutMs/);
    for (const timeoutMs of [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])
      expect(await refused({ timeoutMs })).to.match(
        new RegExp(`timeoutMs .*at least 1.*got ${timeoutMs}`),
      );
    expect(await refused({ timeoutMs: '5' })).to.match(
      /timeoutMs must be a number, got string \(5\)/,
    );
  });

  it('compilationState() is unattempted before the first probe, then success in every thread', async () => {
    const { seen, warnings } = await scenario<{
      before: unknown[];
      state: string;
      here: Look;
      there: Look;
    }>('succeeds');
    expect(seen.before).to.deep.equal(['unattempted', null]);
    expect(seen.state).to.equal('success');
    expect(seen.here).to.deep.include({ state: 'success', error: null, text: '' });
    expect(seen.there).to.deep.equal(seen.here);
    expect(warnings).to.deep.equal([]);
  });

  itAll(
    'a time-out in a worker is a failure in every thread, one warning, and the cause of later errors',
    async () => {
      const { seen, stderr } = await scenario<{
        state: string;
        again: string;
        here: Look;
        there: Look;
      }>('times out in a worker');
      expect([seen.state, seen.again]).to.deep.equal(['failure', 'failure']);
      const { here } = seen;
      expect(here).to.deep.include({
        state: 'failure',
        error: 'UnifiedMemoryCompileTimeoutError',
        timeout: true,
      });
      expect(here.message).to.match(
        /ended after 1 ms, before the devices were listed; a driver may hang there: /,
      );
      expect(here.message).to.match(
        /HOTSLOT_CUDA=none, HOTSLOT_HIP=none or HOTSLOT_LEVEL_ZERO=none leaves one out/,
      );
      expect(here.message).to.match(/if it is only slow, give a longer timeoutMs$/);
      expect(here.refused).to.deep.equal([
        'UnifiedMemoryUnsupportedError',
        'ERR_HOTSLOT_UNAVAILABLE',
      ]);
      expect(here.causeIsError).to.equal(true);
      expect(seen.there).to.deep.equal(here);
      expect(stderr.match(/UnifiedMemoryWarning/g)).to.have.length(1);
    },
  );

  itAll(
    'compileAllocator() kills a probe that hangs at its time-out, and emits one warning',
    async () => {
      const { seen, warnings } = await scenario<{ state: string; probes: number; message: string }>(
        'kills what hangs',
      );
      expect([seen.state, seen.probes]).to.deep.equal(['failure', 1]);
      expect(warnings).to.deep.equal([`UnifiedMemoryWarning: ${seen.message}`]);
    },
  );

  itAll('the time-out error names the device that hangs', async () => {
    const { seen } = await scenario<{ state: string; message: string }>('says what hangs');
    expect(seen.state).to.equal('failure');
    expect(seen.message).to.match(
      /ended after 3000 ms, while it tried managed memory on (host|cuda|rocm|xpu):0; a driver/,
    );
    if (seen.message.includes('host:0')) expect(seen.message).to.not.include('=none');
  });

  it('concurrent calls in several threads share one probe', async () => {
    const { seen } = await scenario<{ states: unknown[]; probes: number }>('all at once');
    expect(seen.states).to.deep.equal([
      'success',
      'success',
      'success',
      'success',
      ['host:0', 'success'],
    ]);
    expect(seen.probes).to.equal(1);
  });

  itAll('a terminated thread ends its probe, and the next call starts another probe', async () => {
    const { seen } = await scenario<{
      busy: { code: string; message: string };
      between: string;
      state: string;
      probes: number;
    }>('a thread dies with its probe');
    expect(seen.busy.code).to.equal('ERR_HOTSLOT_STATE_BUSY');
    expect(seen.busy.message).to.match(/another thread: await compileAllocator\(\)/);
    expect([seen.between, seen.state, seen.probes]).to.deep.equal(['unattempted', 'success', 2]);
  });

  itAll(
    'createUnifiedMempool() in a worker waits for another thread, and probes if that thread ends',
    async () => {
      const { seen } = await scenario('waits in a worker for another thread');
      expect(seen).to.deep.equal({ answer: ['host:0', 'success'], probes: 2 });
    },
  );

  it('createUnifiedMempool() throws ERR_HOTSLOT_STATE_BUSY while the same thread probes', async () => {
    const { seen } = await scenario<{
      busy: { code: string; message: string };
      aborted: string;
      state: string;
    }>('asks itself while it probes');
    expect([seen.busy.code, seen.aborted, seen.state]).to.deep.equal([
      'ERR_HOTSLOT_STATE_BUSY',
      'no time',
      'success',
    ]);
    expect(seen.busy.message).to.match(/this thread: await compileAllocator\(\)/);
  });

  it('createUnifiedMempool() probes once if nothing was probed before', async () => {
    const { seen } = await scenario('probes by itself when a pool is made');
    expect(seen).to.deep.equal({ device: 'host:0', state: 'success', again: 'success', probes: 1 });
  });

  it('a probe that crashes is a failure, and the error names the signal', async () => {
    const { seen, warnings } = await scenario<{ state: string; here: Look; there: Look }>(
      'crashes',
    );
    expect(seen.here).to.deep.include({
      state: 'failure',
      error: 'UnifiedMemoryUnsupportedError',
      timeout: false,
    });
    expect(seen.here.message).to.match(
      /ended with signal SIGSEGV before the devices were listed: /,
    );
    expect([seen.state, seen.there, warnings]).to.deep.equal(['failure', seen.here, []]);
  });

  for (const name of ['throws', 'throws when a pool is made'])
    it(`a probe that ${name} is a failure, and the error has its exit code and last stderr line`, async () => {
      const { seen } = await scenario<{ state: string; here: Look }>(name);
      expect(seen.state).to.equal('failure');
      expect(seen.here.text).to.match(/ended with code 1 .*Error: the probe of the test fails$/);
    });

  it('a probe that cannot start is a failure, and the error has the reason', async () => {
    const { seen } = await scenario<{ state: string; here: Look }>('cannot start');
    expect([seen.state, seen.here.error]).to.deep.equal([
      'failure',
      'UnifiedMemoryUnsupportedError',
    ]);
    expect(seen.here.message).to.match(/could not be started: .*ENOENT/);
  });

  it('createUnifiedMempool() throws the reason of a failed family while the state is success', async () => {
    const { seen } = await scenario<{ here: Look; gpu: { code: string; message: string } }>(
      'a family failed',
    );
    expect(seen.here).to.deep.include({ state: 'success', error: null });
    expect(seen.here.text).to.equal('host:0 has no managed memory: the test says so');
    expect(seen.here.refused).to.deep.equal([
      'UnifiedMemoryUnsupportedError',
      'ERR_HOTSLOT_UNAVAILABLE',
    ]);
    expect(seen.gpu).to.deep.equal({
      code: 'ERR_HOTSLOT_UNAVAILABLE',
      message: 'cuda:0 has no managed memory: no driver',
    });
  });
});
