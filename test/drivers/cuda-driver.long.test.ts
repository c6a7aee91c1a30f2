/**
 * The software drivers of CUDA and HIP: every rule of theirs once, through the interface that
 * Hotslot uses.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { buildDriverProgram, buildSoftwareDriver } from './build.ts';

/** Runs where the version matters: the oldest driver that Hotslot takes, and the newest. */
const onBoth: [string, string][] = [
  ['lookups', 'finds calls by name and version, and reads PTX up to its own version'],
  ['contexts', 'wants a context in the calling thread'],
  ['stale-handles', 'knows which handles live'],
  ['registrations', 'registers host memory by its rules and takes no range that is none'],
  ['copies', 'takes pageable memory at once and pinned memory in its turn'],
  ['streams-and-events', 'orders streams by events, and tells what is not ready'],
  ['kernels', 'launches what was compiled for it, on memory that is there'],
  ['sticky', 'fails a stream or its context for good'],
  ['captures', 'bars, breaks and refuses captures by mode and thread'],
  ['graphs', 'replays, updates and keeps graphs'],
  ['let-go', 'sees memory go that work or graphs still use'],
  ['managed', 'moves managed memory by the signatures of its time'],
  ['threads', 'keeps its books under threads'],
  ['frees-wait', 'waits for all work before it takes anything back, and lets no other call in'],
  ['loads-wait', 'waits for all work before it loads'],
  ['pageable', 'keeps the caller and the stream while it copies pageable memory'],
  ['host-memory', 'takes its time to pin host memory, where the card did'],
  ['forks', 'goes on with the old pages of registered memory that a fork shared'],
];
const once: [string, string, NodeJS.ProcessEnv][] = [
  ['too-old', 'can be older than Hotslot takes', { HOTSLOT_SOFTWARE_CUDA: '11.8' }],
  [
    'sticky',
    'can lose a stream by one kernel, where the card lost its context',
    { HOTSLOT_SOFTWARE_CUDA: '13.0,sticky=stream' },
  ],
  ['two-devices', 'keeps two devices apart', { HOTSLOT_SOFTWARE_CUDA: 'devices=2,sticky=stream' }],
  [
    'limits',
    'can be short of memory and refuse to register',
    { HOTSLOT_SOFTWARE_CUDA: 'memory=65536,register=refuse,ptx=6.3' },
  ],
  [
    'exclusive',
    'can keep the CPU out of managed memory while the device may use it',
    { HOTSLOT_SOFTWARE_CUDA: 'managed=exclusive' },
  ],
  [
    'queues',
    'starts work of a queue in order, whatever stream gave it',
    { HOTSLOT_SOFTWARE_CUDA: '13.0', CUDA_DEVICE_MAX_CONNECTIONS: '2' },
  ],
  [
    'one-queue-each',
    'keeps streams apart that have queues of their own',
    { HOTSLOT_SOFTWARE_CUDA: '13.0', CUDA_DEVICE_MAX_CONNECTIONS: '32' },
  ],
  ['full-queue', 'takes so much work and no more', { HOTSLOT_SOFTWARE_CUDA: 'depth=100' }],
  [
    'pages',
    'packs managed memory, and hands out memory in larger pieces',
    { HOTSLOT_SOFTWARE_CUDA: 'memory=67108864' },
  ],
  [
    'slow',
    'can be slow, and shown on a screen',
    { HOTSLOT_SOFTWARE_CUDA: 'slow=50,exec_timeout=1' },
  ],
  [
    'order',
    'finds operations that touch the same memory and have no order',
    { HOTSLOT_SOFTWARE_ORDER: '1' },
  ],
  ['hangs', 'can keep one call for good', { HOTSLOT_SOFTWARE_CUDA: 'hang=cuMemAllocManaged' }],
  ['no-device', 'can have no device', { HOTSLOT_SOFTWARE_CUDA: 'devices=0' }],
  [
    'misspelt',
    'does not start with an option that it does not know',
    { HOTSLOT_SOFTWARE_CUDA: 'stickiness=context' },
  ],
];

describeAll('software drivers', function () {
  this.timeout(180_000);
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-drivers-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  function run(program: string, driver: string, group: string, env: NodeJS.ProcessEnv) {
    return spawnSync(program, [driver, group], {
      encoding: 'utf8',
      env: { ...process.env, ...env },
      timeout: 60_000,
    });
  }
  function passes(program: string, driver: string, group: string, env: NodeJS.ProcessEnv): void {
    const done = run(program, driver, group, env);
    // Nothing is ever printed by the driver itself.
    expect([done.stdout, done.stderr, done.status, done.signal]).to.deep.equal(['', '', 0, null]);
  }

  describe('libcuda', () => {
    let driver: string;
    let program: string;
    before(() => {
      driver = buildSoftwareDriver('cuda');
      program = buildDriverProgram(['test/drivers/cuda_check.cpp'], []);
    });

    /** They go on with other streams after a failure. */
    const failing = ['kernels', 'graphs', 'let-go'];
    for (const version of ['12.0', '13.0'])
      for (const [group, title] of onBoth)
        it(`${version}: ${title}`, () =>
          // The newer one also looks for operations without an order: a check that is only nearly
          // right is found at once. `let-go` gives memory back without one, on purpose, and counts
          // what is said of that.
          passes(program, driver, group, {
            HOTSLOT_SOFTWARE_CUDA:
              version === '13.0' && failing.includes(group) ? '13.0,sticky=stream' : version,
            ...(version === '13.0' && group !== 'let-go' ? { HOTSLOT_SOFTWARE_ORDER: '1' } : {}),
          }));
    for (const [group, title, env] of once) it(title, () => passes(program, driver, group, env));

    it('fails what it is told to fail, and counts its calls', () => {
      const log = join(folder, 'calls');
      passes(program, driver, 'injection', {
        HOTSLOT_SOFTWARE_FAIL: 'cuMemAlloc:2:2,cuStreamQuery:1:719:forever',
        HOTSLOT_SOFTWARE_LOG: log,
      });
      expect(readFileSync(log, 'utf8').split('\n')).to.include.members([
        'cuMemAlloc 3',
        'cuStreamQuery 3',
        'cuInit 1',
      ]);
    });

    it('ends a process that frees what is in use, where it is told to be strict', () => {
      const done = run(program, driver, 'strict', { HOTSLOT_SOFTWARE_STRICT: 'abort' });
      expect([done.signal, done.stderr]).to.deep.equal([
        'SIGABRT',
        'Hotslot software driver: a free of memory that queued work still uses\n',
      ]);
    });
  });

  describe('libamdhip64', () => {
    let program: string;
    before(() => {
      program = buildDriverProgram(['test/drivers/hip_check.cpp'], []);
    });
    const runtimes = [
      ['hip-old', 'old', 'ROCm 5.2'],
      ['hip', 'new', 'ROCm 7'],
    ] as const;
    for (const [kind, group, name] of runtimes)
      describe(`as of ${name}`, () => {
        let driver: string;
        before(() => {
          driver = buildSoftwareDriver(kind);
        });
        const two = { HOTSLOT_SOFTWARE_HIP: 'devices=2' };
        it('has the calls of its time', () => passes(program, driver, group, two));
        it('has current devices instead of contexts', () =>
          passes(program, driver, 'devices', two));
        it('loads code objects for its own architecture', () =>
          passes(program, driver, 'kernels', two));
        it('finds operations that have no order', () =>
          passes(program, driver, 'order', { HOTSLOT_SOFTWARE_ORDER: '1' }));
        it('can have no device', () =>
          passes(program, driver, 'no-device', { HOTSLOT_SOFTWARE_HIP: 'devices=0' }));
      });
  });
});
