/**
 * Tests Hotslot against driver behavior that GPUs show and no document describes. An option of the
 * software driver turns on each behavior.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll, itLong, setting } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';
import { buildSoftwareDriver } from './build.ts';
import { type Mode, modes, need, run, runTests } from './software.ts';

const { cuda12, cuda13, hip } = modes;
const folders = (...names: string[]) => names.map((name) => testFile(`${name}/*`));

async function probe(mode: Mode, args: readonly string[], more: Record<string, string> = {}) {
  const { stdout, stderr, status } = await run(
    mode,
    ['dist/test/drivers/contact-probe.js', ...args],
    more,
  );
  expect(status, stderr).to.equal(0);
  return JSON.parse(stdout);
}

describeAll('undocumented driver behavior', function () {
  this.timeout(setting({ short: 600_000, all: 600_000 }));
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-contact-'));
  before(function () {
    need(this, cuda13);
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  for (const mode of [cuda13, hip] as const)
    it(`${mode.name}: closed memory returns to the driver after all work has ended, not before`, async () => {
      const { during, asked, after, registrations } = await probe(mode, ['givenBack']);
      expect({ during, registrations }).to.deep.equal({ during: 0, registrations: 0 });
      // Allocations of similar sizes reuse memory that was closed before.
      expect(asked).to.be.at.most(2);
      expect(after).to.be.at.least(5);
    });

  for (const mode of [cuda13, hip] as const)
    it(`${mode.name}: instantiate() and update() upload a graph, except during a capture`, async () => {
      const once = { instantiated: 1, replayed: 0, updated: 1, replaced: 1, 'in a capture': 0 };
      const values = [21, 21, 21, 21];
      expect(await probe(mode, ['uploads'])).to.deep.equal({ ...once, values });
      // A failed upload is ignored, because the first replay uploads the graph.
      const upload = mode === hip ? 'hipGraphUpload' : 'cuGraphUpload';
      const fails = { HOTSLOT_SOFTWARE_FAIL: `${upload}:1:2:forever` };
      expect(await probe(mode, ['uploads'], fails)).to.deep.equal({ ...once, values });
    });

  it('a stream recovers after its capturing thread ends, or throws if no capture can begin', async () => {
    const nothing = { streams: 0, values: [2] };
    expect(await probe(cuda13, ['goesOn'])).to.deep.equal({
      ...nothing,
      messages: [null, null, null, null, null],
    });
    const { messages, ...rest } = await probe(cuda13, ['givenUp']);
    expect(rest).to.deep.equal(nothing);
    for (const message of messages.slice(0, 4))
      expect(message).to.match(/the driver would not end this stream's capture$/);
    expect(messages[4]).to.match(/no capture/);
  });

  it('CUDA_DEVICE_MAX_CONNECTIONS is 32 unless the user sets another value', async () => {
    const opened = (more = {}) => probe(cuda13, ['opened'], more);
    expect(await opened()).to.include({ connections: '32' });
    expect(await opened({ CUDA_DEVICE_MAX_CONNECTIONS: '4' })).to.include({ connections: '4' });
  });

  it('opening a device loads its kernels, and the first matrix product works in a capture', async () => {
    const cublas = { HOTSLOT_CUBLAS: buildSoftwareDriver('cublas'), HOTSLOT_OWN_PRODUCTS: 'none' };
    expect(await probe(cuda13, ['opened'])).to.include({ loaded: 1 });
    expect(await probe(cuda13, ['firstProduct'], cublas)).to.deep.equal([64]);
  });

  it('the tests of pinned memory pass, with a process that forks', async () => {
    // The mode has 1 GiB of memory, because other processes also use the machine's memory.
    const own = { ...cuda13, told: { HOTSLOT_SOFTWARE_CUDA: `13.0,memory=${2 ** 30}` } };
    expect(await runTests(own, [testFile('gpu/pinned')])).to.be.at.least(8);
  });

  it('traits.watchdog is true when the GPU limits the run time of kernels', async () => {
    expect(await probe(cuda13, ['opened'])).to.include({ watchdog: false });
    const told = { HOTSLOT_SOFTWARE_CUDA: '13.0,exec_timeout=1' };
    expect(await probe(cuda13, ['opened'], told)).to.include({ watchdog: true });
  });

  it('createUnifiedMempool() throws with advice when the GPU is in exclusive mode', async () => {
    const told = { HOTSLOT_SOFTWARE_CUDA: `13.0,exclusive=${join(folder, 'device')}` };
    expect(JSON.stringify(await probe(cuda13, ['managed'], told)))
      .to.include('exclusive mode')
      .and.include('nvidia-smi -c 0');
  });

  it('matrix products use the next library when a cuBLAS cannot load or multiply', async () => {
    const good = buildSoftwareDriver('cublas');
    const lacking = join(folder, 'libcublas.so.12');
    const source = join(folder, 'empty.c');
    writeFileSync(source, 'int empty;\n');
    const needed = join(folder, 'libcublasLt.so.12');
    const compile = (...args: string[]) => {
      const { status, stderr } = spawnSync(process.env.CC ?? 'gcc', [
        '-shared',
        '-fPIC',
        source,
        ...args,
      ]);
      expect(status, String(stderr)).to.equal(0);
    };
    compile('-o', needed, '-Wl,-soname,libcublasLt.so.12');
    compile('-o', lacking, '-Wl,--no-as-needed', needed);
    rmSync(needed);
    const chosen = async (list: string, how = '') =>
      (await probe(cuda13, ['opened'], { HOTSLOT_CUBLAS: list, HOTSLOT_SOFTWARE_BLAS: how }))
        .matrixProducts;
    expect(await chosen(`${lacking}:libm.so.6:${good}`)).to.match(/^cuBLAS 13\.1 /);
    const alone: string = await chosen(lacking);
    expect(alone).to.match(/^Hotslot's own kernel \(libcublasLt\.so\.12: .*HOTSLOT_CUBLAS/);
    expect(await chosen(good, 'arch')).to.match(/does not multiply here: .*cuBLAS status 1\)/);
  });

  it('graph events work when the driver reports them as done before their record', async () => {
    const late = { HOTSLOT_SOFTWARE_CUDA: '13.0,graph_events=late' };
    const own = [
      testFile('device/contract'),
      '--fgrep',
      'record events for outsiders at every replay',
    ];
    expect(await runTests(cuda13, own, late)).to.equal(2);
  });

  it('the device contract passes with late kernel loads, and a slow driver opens', async () => {
    const part = setting({ short: '', all: 'cuda:0 graphs', long: 'cuda:0' });
    const contract = [testFile('device/contract'), '--fgrep', part];
    const least = setting({ short: 0, all: 10, long: 100 });
    expect(await runTests(cuda12, contract)).to.be.at.least(least);
    const fills = { HOTSLOT_SOFTWARE_CUDA: '13.0,fill=loads' };
    expect(await runTests(cuda13, contract, fills)).to.be.at.least(least);
    const slow = { HOTSLOT_SOFTWARE_CUDA: '13.0,slow=300' };
    expect(await probe(cuda13, ['opened'], slow)).to.include({ watchdog: false });
  });

  itLong('the tests of devices and modules pass when allocations wait for all work', async () => {
    const waits = { HOTSLOT_SOFTWARE_CUDA: '13.0,alloc=waits' };
    const contract = [testFile('device/contract'), '--fgrep', 'device contract on cuda:0'];
    expect(await runTests(cuda13, contract, waits)).to.be.at.least(100);
    const above = folders('halo', 'graph', 'memory', 'transfer');
    expect(
      await runTests(cuda13, [...above, '--fgrep', ' on cpu', '--invert'], waits),
    ).to.be.at.least(200);
  });
});
