/**
 * Tests the software drivers of CUDA and HIP: check programs call them through the interface that
 * Hotslot uses, and check each of their rules once.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { buildDriverProgram, buildSoftwareDriver } from './build.ts';

/**
 * Groups of checks that depend on the version. They run as 12.0, the oldest version that Hotslot
 * accepts, and as 13.0, the newest.
 */
const onBoth: [string, string][] = [
  ['lookups', 'finds calls by name and version, and reads PTX up to its own version'],
  ['contexts', 'needs a current context in the calling thread'],
  ['stale-handles', 'rejects destroyed handles'],
  ['registrations', 'registers host memory by its rules, and rejects invalid ranges'],
  ['copies', 'copies pageable memory at the call, and pinned memory in stream order'],
  ['streams-and-events', 'orders streams by events, and reports pending work as not ready'],
  ['kernels', 'launches kernels of loaded images, and rejects invalid memory and arguments'],
  ['sticky', 'keeps the error of a stream or its context after a kernel fails'],
  ['captures', 'rejects calls and invalidates captures by mode and thread'],
  ['graphs', 'launches and updates graphs, and finishes a graph that is destroyed'],
  ['let-go', 'reports memory that is freed while work or graphs use that memory'],
  ['managed', 'prefetches and advises managed memory by the signatures of its version'],
  ['threads', 'reports no violation and no leak with four concurrent threads'],
  ['frees-wait', 'a free waits for all work, and blocks other calls until then'],
  ['loads-wait', 'loading a module or kernel waits for all work'],
  [
    'pageable',
    'copies to pageable memory, and large copies from pageable memory, block the caller',
  ],
  ['host-memory', 'allocating 64 MiB of pinned memory takes time in version 13.0 only'],
  ['forks', 'copies the old pages of registered memory after a fork, except with MADV_DONTFORK'],
];
const once: [string, string, NodeJS.ProcessEnv][] = [
  ['too-old', 'reports version 11.8 if its option is 11.8', { HOTSLOT_SOFTWARE_CUDA: '11.8' }],
  [
    'sticky',
    'keeps the context after a kernel fails if sticky=stream',
    { HOTSLOT_SOFTWARE_CUDA: '13.0,sticky=stream' },
  ],
  [
    'two-devices',
    'keeps the streams and the memory of two devices apart',
    { HOTSLOT_SOFTWARE_CUDA: 'devices=2,sticky=stream' },
  ],
  [
    'limits',
    'limits memory, registration and PTX version by its options',
    { HOTSLOT_SOFTWARE_CUDA: 'memory=65536,register=refuse,ptx=6.3' },
  ],
  [
    'exclusive',
    'reports no concurrent managed access if managed=exclusive',
    { HOTSLOT_SOFTWARE_CUDA: 'managed=exclusive' },
  ],
  [
    'queues',
    'starts work in queue order when streams share a queue',
    { HOTSLOT_SOFTWARE_CUDA: '13.0', CUDA_DEVICE_MAX_CONNECTIONS: '2' },
  ],
  [
    'one-queue-each',
    'runs 30 streams independently with 32 queues',
    { HOTSLOT_SOFTWARE_CUDA: '13.0', CUDA_DEVICE_MAX_CONNECTIONS: '32' },
  ],
  ['full-queue', 'blocks a call when the queue is full', { HOTSLOT_SOFTWARE_CUDA: 'depth=100' }],
  [
    'pages',
    'packs small managed allocations into shared pages, and takes memory in 2 MiB pieces',
    { HOTSLOT_SOFTWARE_CUDA: 'memory=67108864' },
  ],
  [
    'slow',
    'slows its calls and reports a time limit of kernels by its options',
    { HOTSLOT_SOFTWARE_CUDA: 'slow=50,exec_timeout=1' },
  ],
  [
    'order',
    'reports operations on the same memory that have no order',
    { HOTSLOT_SOFTWARE_ORDER: '1' },
  ],
  [
    'hangs',
    'hangs in one chosen call while other calls return',
    { HOTSLOT_SOFTWARE_CUDA: 'hang=cuMemAllocManaged' },
  ],
  ['no-device', 'reports no device if devices=0', { HOTSLOT_SOFTWARE_CUDA: 'devices=0' }],
  ['misspelt', 'rejects an unknown option', { HOTSLOT_SOFTWARE_CUDA: 'stickiness=context' }],
];

describeAll('software drivers of CUDA and HIP', function () {
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
    // The driver itself prints nothing.
    expect([done.stdout, done.stderr, done.status, done.signal]).to.deep.equal(['', '', 0, null]);
  }

  describe('libcuda', () => {
    let driver: string;
    let program: string;
    before(() => {
      driver = buildSoftwareDriver('cuda');
      program = buildDriverProgram(['test/drivers/cuda_check.cpp'], []);
    });

    /** Groups that use other streams after a failure. */
    const failing = ['kernels', 'graphs', 'let-go'];
    for (const version of ['12.0', '13.0'])
      for (const [group, title] of onBoth)
        it(`${version}: ${title}`, () =>
          // Version 13.0 also reports operations without an order, which finds mistakes in the
          // checks themselves. `let-go` is excluded: it frees memory without an order on purpose,
          // and counts the complaints.
          passes(program, driver, group, {
            HOTSLOT_SOFTWARE_CUDA:
              version === '13.0' && failing.includes(group) ? '13.0,sticky=stream' : version,
            ...(version === '13.0' && group !== 'let-go' ? { HOTSLOT_SOFTWARE_ORDER: '1' } : {}),
          }));
    for (const [group, title, env] of once) it(title, () => passes(program, driver, group, env));

    it('fails the calls of HOTSLOT_SOFTWARE_FAIL, and logs call counts to HOTSLOT_SOFTWARE_LOG', () => {
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

    it('aborts a process that frees memory in use if HOTSLOT_SOFTWARE_STRICT is abort', () => {
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
        it('has the calls, the names and the capture rules of its version', () =>
          passes(program, driver, group, two));
        it('has a current device for each thread in place of contexts', () =>
          passes(program, driver, 'devices', two));
        it('loads code objects of its own architecture, and rejects others', () =>
          passes(program, driver, 'kernels', two));
        it('reports operations on the same memory that have no order', () =>
          passes(program, driver, 'order', { HOTSLOT_SOFTWARE_ORDER: '1' }));
        it('reports no device when its option is devices=0', () =>
          passes(program, driver, 'no-device', { HOTSLOT_SOFTWARE_HIP: 'devices=0' }));
      });
  });
});
