/**
 * Every family of devices over its software driver: the contract, all that is built on devices, a training run, and the same
 * run with each driver call failing once. Every mode is a process of its own.
 */
import { expect } from 'chai';
import type { Outcome } from './every-call-worker.ts';
import { libraryOf, type Mode, missing, modes, run, runTests } from './software.ts';

/** What has tests of its own above devices; a mode per family runs it. */
const above = ['actors', 'pipeline', 'learner', 'trace', 'transfer'].map((folder) => `dist/test/${folder}/*.test.js`);

function describeMode(mode: Mode, more: (this: Mocha.Suite) => void = () => {}): void {
  describe(`${mode.name} (software driver)`, function () {
    this.timeout(300_000);
    before(function () {
      const reason = missing(mode);
      if (reason !== null) {
        console.log(`      ${mode.name}: ${reason}`);
        this.skip();
      }
      libraryOf(mode);
    });

    it('keeps the device contract', async () => {
      expect(await runTests(mode, ['dist/test/device/contract.test.js'])).to.be.at.least(200);
    });

    it('trains CartPole', async () => {
      const script = 'dist/examples/cartpole-dqn/main.js';
      const { stdout, stderr, status } = await run(mode, [script, '--device', mode.device, '--json']);
      expect(status, stderr).to.equal(0);
      const summary = JSON.parse(stdout.trim().split('\n').at(-1) as string) as Record<string, unknown>;
      expect(summary).to.include({ solved: true, device: mode.device });
    });

    it('is listed as a software driver, and never chosen by auto', async () => {
      const { stdout, status } = await run(mode, ['dist/src/cli/main.js', 'doctor']);
      expect(status).to.equal(0);
      expect(stdout).to.match(new RegExp(`${mode.device} +Hotslot software driver`));
      expect(stdout).to.match(new RegExp(`test ${mode.device} +copied there and back`));
      const script = 'import("hotslot").then(({ openDevice }) => console.log(openDevice("auto").name))';
      expect((await run(mode, ['--input-type=module', '-e', script])).stdout.trim()).to.equal('host:0');
    });

    more.call(this);
  });
}

/** Calls of which one failure may pass without a word, and why nobody is harmed. */
const harmless: Record<string, string> = {
  cuCtxGetCurrent: 'the context is then set again',
  hipGetDevice: 'the device is then set again',
  cuThreadExchangeStreamCaptureMode: 'only captures of other libraries in the process need it',
  hipThreadExchangeStreamCaptureMode: 'only captures of other libraries in the process need it',
  cuStreamQuery: 'asked for memory that was let go: it is asked again, and kept meanwhile',
  hipStreamQuery: 'asked for memory that was let go: it is asked again, and kept meanwhile',
  cuEventQuery: 'likewise',
  hipEventQuery: 'likewise',
  cuEventCreate: 'marks the end of what may touch let-go memory; the stream itself is asked instead',
  hipEventCreateWithFlags: 'likewise',
  cuEventRecord: 'likewise',
  hipEventRecord: 'likewise',
};

function failsEveryCall(mode: Mode, most: number): void {
  for (const placement of ['inline', 'spread']) {
    it(`each driver call of a training run, ${placement}, failing once or for ever, is told by name; all is closed`, async () => {
      const args = [
        '--no-warnings',
        'dist/test/drivers/every-call-worker.js',
        libraryOf(mode),
        String(most),
        placement,
      ];
      const { stdout, stderr, status, signal } = await run(mode, args);
      expect({ status, signal }, stderr.slice(-3000)).to.deep.equal({ status: 0, signal: null });
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      const { made } = lines[0] as { made: Record<string, number> };
      expect(Object.keys(made).length).to.be.at.least(25);
      expect((lines.at(-1) as { threads: number }).threads, 'threads left').to.be.at.most(2);
      const outcomes = lines.slice(1, -1) as Outcome[];
      const wrong: unknown[] = [];
      const fired = new Set<string>();
      for (const each of outcomes) {
        const { call, named, warned, error, closing, leaked, ms } = each;
        if (!each.fired) continue;
        fired.add(call);
        const told = named === call || warned.includes(call) || warned.some((text) => text.includes('kept for good'));
        if (!told && !(error === null && call in harmless)) wrong.push({ ...each, why: 'not told' });
        if (closing !== null) wrong.push({ ...each, why: 'not closed' });
        if (ms > 10_000) wrong.push({ ...each, why: 'took too long' });
        // What the driver would not take back is all that may be left: one kind of object, as often as that was said.
        const kinds = Object.keys(leaked).filter((kind) => kind !== 'allocation_bytes');
        const most = warned.length;
        if (kinds.length > 1 || kinds.some((kind) => (leaked[kind] as number) > most))
          wrong.push({ ...each, why: 'leaked' });
      }
      expect(wrong).to.deep.equal([]);
      const silent = Object.keys(made).filter((call) => !fired.has(call) && (made[call] as number) > 1);
      expect(silent, 'calls that never failed').to.deep.equal([]);
    });
  }
}

describeMode(modes.cuda12);
describeMode(modes.cuda13, () => {
  it('carries everything that is built on devices', async () => {
    expect(await runTests(modes.cuda13, above)).to.be.at.least(200);
  });
  failsEveryCall(modes.cuda13, 12);
});
describeMode(modes.hipOld);
describeMode(modes.hip, () => {
  it('carries everything that is built on devices', async () => {
    expect(await runTests(modes.hip, above)).to.be.at.least(200);
  });
  failsEveryCall(modes.hip, 4);
});
