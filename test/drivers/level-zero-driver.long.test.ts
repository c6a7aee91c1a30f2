/**
 * The Level Zero software driver under the vendor's own loader: what it does for a good caller and
 * to a bad one.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { buildDriverProgram, buildSoftwareDriver, missingForDriver } from './build.ts';

/**
 * The loader checks every argument before the driver sees it; it takes nothing newer than spec 1.4.
 */
const validated = { ZE_ENABLE_VALIDATION_LAYER: '1', ZE_ENABLE_PARAMETER_VALIDATION: '1' };

const scenarios: [title: string, scenario: string, environment: Record<string, string>][] = [
  ['copies along a chain of events', 'basics', validated],
  [
    'keeps no order that a list does not promise',
    'unordered',
    { ...validated, HOTSLOT_SOFTWARE_ZE: 'linger=20000' },
  ],
  ['runs closed lists, and none that is open, elsewhere or without its memory', 'lists', validated],
  ['runs kernels by their host form; a failed one takes its list with it', 'kernels', validated],
  ['takes the module Hotslot ships', 'image', validated],
  ['loses nothing in a chain across lists', 'storm', { HOTSLOT_SOFTWARE_ZE: 'linger=0' }],
  ['lets the validation layer see wrong arguments', 'validation', validated],
  ['finds stale handles, memory in use, racing threads', 'mistakes', validated],
  [
    'fails when it is told to',
    'injection',
    { ...validated, HOTSLOT_SOFTWARE_FAIL: 'zeMemAllocDevice:2:0x70000003' },
  ],
  [
    'has as many devices and as much memory as it is told',
    'peers',
    { HOTSLOT_SOFTWARE_ZE: 'devices=2,memory=64' },
  ],
  [
    'shares memory between a device and the host',
    'shared',
    { ...validated, HOTSLOT_SOFTWARE_ZE: 'devices=2,memory=64' },
  ],
  ['the same across devices', 'shared', { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2,memory=64' }],
  ['or not at all', 'shared', { HOTSLOT_SOFTWARE_ZE: 'shared=none' }],
  [
    'spec 1.9: in-order lists, counter-based events, appended lists',
    'modern',
    { HOTSLOT_SOFTWARE_ZE: 'spec=1.9' },
  ],
  ['the same in the newest', 'modern', { HOTSLOT_SOFTWARE_ZE: 'modern' }],
  ['imports host memory in both ways', 'imports', { HOTSLOT_SOFTWARE_ZE: 'import=both' }],
  ['records graphs', 'graphs', { HOTSLOT_SOFTWARE_ZE: 'modern' }],
  [
    'finds operations that touch the same memory and have no order',
    'ordered',
    { HOTSLOT_SOFTWARE_ZE: 'modern', HOTSLOT_SOFTWARE_ORDER: '1' },
  ],
  [
    'lists an extension that its device lacks',
    'listed_only',
    { HOTSLOT_SOFTWARE_ZE: 'graph=listed-only' },
  ],
];

describeAll('the Level Zero software driver', function () {
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

  it('stops a list that runs twice at once', () => {
    const { stderr, ...rest } = run('twice', { HOTSLOT_SOFTWARE_ZE: 'modern' });
    expect(rest).to.deep.equal({ status: 0, signal: null, stdout: '' });
    expect(stderr).to.match(
      /^Hotslot software driver: .* while an earlier run of it is not over\n$/,
    );
  });

  it('keeps the host out of device memory', () => {
    expect(run('touch', validated)).to.include({ signal: 'SIGSEGV', stdout: 'alive until here\n' });
  });

  it('says mistakes, or stops at the first', () => {
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

  it('does not start with a word that means nothing', () => {
    const { status, stderr } = run('basics', { HOTSLOT_SOFTWARE_ZE: 'spec=1.9,in-order' });
    expect(status).to.equal(1);
    expect(stderr).to.match(/^Hotslot software driver: zeInit: .*'in-order', which means nothing/);
  });

  it('leaves the calls it got in a file', () => {
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
