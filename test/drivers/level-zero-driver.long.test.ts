/**
 * Tests the Level Zero software driver under the vendor's loader. A check program calls the driver
 * correctly and with mistakes.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { buildDriverProgram, buildSoftwareDriver, missingForDriver } from './build.ts';

/**
 * Makes the loader check every argument before the driver gets it. The loader's checks know nothing
 * newer than spec 1.4.
 */
const validated = { ZE_ENABLE_VALIDATION_LAYER: '1', ZE_ENABLE_PARAMETER_VALIDATION: '1' };

const scenarios: [title: string, scenario: string, environment: Record<string, string>][] = [
  ['copies in the order of a chain of events', 'basics', validated],
  [
    'orders the commands of a list by events and barriers only',
    'unordered',
    { ...validated, HOTSLOT_SOFTWARE_ZE: 'linger=20000' },
  ],
  ['runs closed lists, and rejects open lists, lists in use and freed memory', 'lists', validated],
  ['runs kernels by their host form, and fails the list of a failed kernel', 'kernels', validated],
  ['loads the SPIR-V module of Hotslot', 'image', validated],
  [
    'completes a chain of 20,000 steps across six lists',
    'storm',
    { HOTSLOT_SOFTWARE_ZE: 'linger=0' },
  ],
  ['leaves wrong arguments to the validation layer', 'validation', validated],
  ['reports stale handles, memory in use and two threads on one list', 'mistakes', validated],
  [
    'fails the calls of HOTSLOT_SOFTWARE_FAIL',
    'injection',
    { ...validated, HOTSLOT_SOFTWARE_FAIL: 'zeMemAllocDevice:2:0x70000003' },
  ],
  [
    'has the devices and the memory of its options',
    'peers',
    { HOTSLOT_SOFTWARE_ZE: 'devices=2,memory=64' },
  ],
  [
    'shares memory between a device and the host',
    'shared',
    { ...validated, HOTSLOT_SOFTWARE_ZE: 'devices=2,memory=64' },
  ],
  [
    'shares memory across devices in the newest version',
    'shared',
    { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2,memory=64' },
  ],
  ['rejects shared allocations if shared=none', 'shared', { HOTSLOT_SOFTWARE_ZE: 'shared=none' }],
  [
    'has in-order lists, counter-based events and appended lists in spec 1.9',
    'modern',
    { HOTSLOT_SOFTWARE_ZE: 'spec=1.9' },
  ],
  [
    'has in-order lists, counter-based events and appended lists in the newest version',
    'modern',
    { HOTSLOT_SOFTWARE_ZE: 'modern' },
  ],
  ['imports host memory by both extensions', 'imports', { HOTSLOT_SOFTWARE_ZE: 'import=both' }],
  ['records, instantiates and runs graphs', 'graphs', { HOTSLOT_SOFTWARE_ZE: 'modern' }],
  [
    'reports operations on the same memory that have no order',
    'ordered',
    { HOTSLOT_SOFTWARE_ZE: 'modern', HOTSLOT_SOFTWARE_ORDER: '1' },
  ],
  [
    'lists a graph extension that its device lacks',
    'listed_only',
    { HOTSLOT_SOFTWARE_ZE: 'graph=listed-only' },
  ],
];

describeAll('Level Zero software driver', function () {
  this.timeout(240_000);
  let library: string;
  let program: string;

  before(function () {
    const why = missingForDriver('level_zero');
    if (why !== null) {
      console.log(`    skipped: ${why}`);
      this.skip();
    }
    library = buildSoftwareDriver('level_zero');
    program = buildDriverProgram(
      ['test/drivers/level_zero_check.cpp', 'native/kernels/images/images.cpp'],
      ['-lze_loader'],
    );
  });

  function run(scenario: string, environment: Record<string, string>) {
    const own = Object.entries(process.env).filter(([name]) => !/^(ZE|ZEL|HOTSLOT)_/.test(name));
    const env = { ...Object.fromEntries(own), ...environment, ZE_ENABLE_ALT_DRIVERS: library };
    const { status, signal, stdout, stderr } = spawnSync(program, [scenario], {
      env,
      encoding: 'utf8',
    });
    return { status, signal, stdout, stderr };
  }
  const quiet = { status: 0, signal: null, stdout: '', stderr: '' };

  for (const [title, scenario, environment] of scenarios)
    it(title, () => expect(run(scenario, environment)).to.deep.equal(quiet));

  it('fails a command list that is started during an earlier run of the same list', () => {
    const { stderr, ...rest } = run('twice', { HOTSLOT_SOFTWARE_ZE: 'modern' });
    expect(rest).to.deep.equal({ status: 0, signal: null, stdout: '' });
    expect(stderr).to.match(
      /^Hotslot software driver: .* while an earlier run of it is not over\n$/,
    );
  });

  it('ends the process with SIGSEGV when the host touches device memory', () => {
    expect(run('touch', validated)).to.include({ signal: 'SIGSEGV', stdout: 'alive until here\n' });
  });

  it('prints a misuse, and aborts if HOTSLOT_SOFTWARE_STRICT is abort', () => {
    const said =
      'Hotslot software driver: zeEventQueryStatus: no handle of this driver where one of events belongs\n';
    expect(run('strict', { HOTSLOT_SOFTWARE_STRICT: 'print' })).to.deep.equal({
      ...quiet,
      stderr: said,
    });
    expect(run('strict', { HOTSLOT_SOFTWARE_STRICT: 'abort' })).to.include({
      signal: 'SIGABRT',
      stderr: said,
    });
  });

  it('rejects an unknown option in HOTSLOT_SOFTWARE_ZE', () => {
    const { status, stderr } = run('basics', { HOTSLOT_SOFTWARE_ZE: 'spec=1.9,in-order' });
    expect(status).to.equal(1);
    expect(stderr).to.match(/^Hotslot software driver: zeInit: .*'in-order', which means nothing/);
  });

  it('writes the counts of its calls to the file of HOTSLOT_SOFTWARE_LOG', () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-driver-'));
    try {
      const log = join(folder, 'calls');
      expect(
        run('listed_only', { HOTSLOT_SOFTWARE_ZE: 'graph=listed-only', HOTSLOT_SOFTWARE_LOG: log }),
      ).to.deep.equal(quiet);
      expect(readFileSync(log, 'utf8').split('\n')).to.include.members([
        'zeDeviceGet 2',
        'zeContextCreate 1',
      ]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
