/**
 * Every family of devices over its software driver: the contract, all that is built on devices, a training run, and the same
 * run with each driver call failing once. Every mode is a process of its own.
 */
import { expect } from 'chai';
import { buildSoftwareDriver } from './build.ts';
import type { Outcome } from './every-call-worker.ts';
import { libraryOf, type Mode, modes, need, run, runTests } from './software.ts';

/** What has tests of its own above devices; a mode per family runs it. */
const above = [
  'actors',
  'pipeline',
  'learner',
  'trace',
  'transfer',
  'memory',
  'graph',
  'operators',
  'operators/halo',
  'gpu',
].map((folder) => `dist/test/${folder}/*.test.js`);

function describeMode(mode: Mode, more: (this: Mocha.Suite) => void = () => {}): void {
  describe(`${mode.name} (software driver)`, function () {
    this.timeout(300_000);
    before(function () {
      need(this, mode);
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
  zexCounterBasedEventCreate2: 'an event is made the older way instead, or marks as above',
  zeEventQueryStatus: 'asked again by the next look',
  zeEventHostReset: 'the event is set aside and reset later',
  // What Level Zero refuses to take back is offered once more, and only then told.
  zeCommandListDestroy: 'offered again',
  zeCommandQueueDestroy: 'offered again',
  zeEventDestroy: 'offered again',
  zeEventPoolDestroy: 'offered again',
  zeMemFree: 'offered again',
  zeGraphDestroyExt: 'offered again',
  zeExecutableGraphDestroyExt: 'offered again',
  zexDriverReleaseImportedPointer: 'offered again',
};

function failsEveryCall(mode: Mode, most: number): void {
  for (const placement of ['inline', 'spread']) {
    it(`each driver call of a training run, ${placement}, failing once or for ever, is told by name; all is closed`, async () => {
      const args = ['--no-warnings', 'dist/test/drivers/every-call-worker.js', String(most), placement];
      const { stdout, stderr, status, signal } = await run(mode, args);
      expect({ status, signal }, stderr.slice(-3000)).to.deep.equal({ status: 0, signal: null });
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as object);
      const { made } = lines[0] as { made: Record<string, number> };
      expect(Object.keys(made).length).to.be.at.least(15);
      // The Level Zero driver has threads of its own.
      const least = mode.driver === 'level_zero' ? 16 : 2;
      expect((lines.at(-1) as { threads: number }).threads, 'threads left').to.be.at.most(least);
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

function carriesAbove(mode: Mode): void {
  it('carries everything that is built on devices', async () => {
    expect(await runTests(mode, above)).to.be.at.least(200);
  });
}

/** What the driver is told beside its mode, for more than one device. */
function hasPeers(mode: Mode, told: Record<string, string>): void {
  it('copies between two devices', async () => {
    expect(await runTests(mode, ['dist/test/device/peers.test.js'], told)).to.equal(5);
    expect(await runTests(mode, ['dist/test/operators/*.test.js'], told)).to.be.at.least(140);
  });
}

describeMode(modes.cuda12);
describeMode(modes.cuda13, () => {
  carriesAbove(modes.cuda13);
  hasPeers(modes.cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,devices=2' });
  it('copies between two devices that cannot reach each other', async () => {
    const told = { HOTSLOT_SOFTWARE_CUDA: '13.0,devices=2,peer=none' };
    expect(await runTests(modes.cuda13, ['dist/test/device/peers.test.js'], told)).to.equal(5);
    expect(await runTests(modes.cuda13, ['dist/test/operators/*.test.js'], told)).to.be.at.least(140);
  });
  it('multiplies matrices by cuBLAS where it is, inside captures too', async () => {
    const cublas = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas') };
    expect(await runTests(modes.cuda13, ['dist/test/learner/*.test.js'], cublas)).to.be.at.least(50);
    const { stdout } = await run(modes.cuda13, ['dist/test/drivers/probe.js', 'products'], cublas);
    expect(JSON.parse(stdout)).to.match(/^cuBLAS 13\.1 /);
    const own = await run(modes.cuda13, ['dist/test/drivers/probe.js', 'products']);
    expect(JSON.parse(own.stdout)).to.equal("Hotslot's own kernel");
  });
  it('keeps the contract where a failing kernel takes the whole device, each such test in a process of its own', async () => {
    const script = ['dist/test/gpu/run.js', 'cuda:0', '--only', 'contract,lost', '--json'];
    const told = { HOTSLOT_SOFTWARE_CUDA: '13.0,sticky=context', HOTSLOT_TEST_ERROR_SCOPE: 'device' };
    const { stdout, stderr, status } = await run(modes.cuda13, script, told);
    expect(status, stdout + stderr).to.equal(0);
    const lines = stdout.trim().split('\n');
    const units = lines.map((line) => JSON.parse(line) as { part?: string; passes: number });
    const alone = units.filter(({ part }) => part === 'lost').map(({ passes }) => passes);
    expect(alone).to.deep.equal(Array(10).fill(1));
    expect(units.at(-1)?.passes).to.be.at.least(100);
  });
  failsEveryCall(modes.cuda13, 8);
});
describeMode(modes.hipOld);
describeMode(modes.hip, () => {
  carriesAbove(modes.hip);
  hasPeers(modes.hip, { HOTSLOT_SOFTWARE_HIP: 'devices=2' });
  failsEveryCall(modes.hip, 2);
});
describeMode(modes.ze14, () => {
  carriesAbove(modes.ze14);
  failsEveryCall(modes.ze14, 2);
});
describeMode(modes.zeBare);
describeMode(modes.ze, () => {
  carriesAbove(modes.ze);
  hasPeers(modes.ze, { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2' });
  failsEveryCall(modes.ze, 2);
});
describeMode(modes.zeIntel);
describeMode(modes.zeGraph);
