/**
 * Tests the error messages and warnings that users get if a driver is old, missing, full or
 * failing, and that devices work afterwards.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { describeAll, itAll, itLong, setting } from '../rig/setting.ts';
import { type Mode, modes, need, run } from './software.ts';
import { counts } from './talk.ts';

async function probe(mode: Mode, args: readonly string[], more: Record<string, string> = {}) {
  const { stdout, stderr, status } = await run(mode, ['dist/test/drivers/probe.js', ...args], more);
  expect(status, stderr).to.equal(0);
  return JSON.parse(stdout);
}

interface Listed {
  devices: { name: string; family: string; available: boolean; reason?: string }[];
  auto: string;
  refused: { name?: string; code?: string; message?: string };
}
const reasonOf = ({ devices }: Listed, family: string) =>
  devices.find((each) => each.family === family && !each.available)?.reason ?? '';

const { cuda13, hip, ze, ze14 } = modes;
/**
 * Declares a test. HIP's tests run only in the longest runs, because the same code makes the calls
 * of CUDA and HIP.
 */
const ofFamily = (mode: Mode) => (mode === hip ? itLong : it);
/** A library that loads but is not a driver. */
const stranger = 'libm.so.6';

/** Number of threads that the test kills, one after another. */
const kills = setting({ short: 0, all: 3, long: 200 });

describeAll('driver faults and limits', () => {
  before(function () {
    need(this, cuda13);
  });

  it('openDevice() throws for a missing index, and names the number of devices', async () => {
    const one: Listed = await probe(cuda13, ['list', 'cuda:7']);
    expect(one.refused).to.include({ name: 'RangeError', code: 'ERR_HOTSLOT_UNKNOWN_DEVICE' });
    expect(one.refused.message).to.equal(
      "unknown device 'cuda:7': there is 1 device of cuda, the last is 'cuda:0'",
    );
    const three: Listed = await probe(cuda13, ['list', 'cuda:3'], {
      HOTSLOT_SOFTWARE_CUDA: '13.0,devices=3',
    });
    expect(
      three.devices.filter(({ family }) => family === 'cuda').map(({ name }) => name),
    ).to.deep.equal(['cuda:0', 'cuda:1', 'cuda:2']);
    expect(three.refused.message).to.include("there are 3 devices of cuda, the last is 'cuda:2'");
  });

  it('listDevices() and openDevice() report a driver that is too old, and the version needed', async () => {
    const listed: Listed = await probe(cuda13, ['list', 'cuda:0'], {
      HOTSLOT_SOFTWARE_CUDA: '11.8',
    });
    expect(reasonOf(listed, 'cuda')).to.match(
      /supports CUDA 11\.8, needed is 12\.0 or newer .*update the driver/,
    );
    expect(listed.refused).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
    expect(listed.refused.message).to.include('11.8').and.include("use 'host:0'");
    expect(listed.auto).to.equal('host:0');
  });

  itAll(
    'listDevices(), openDevice() and launch() name the cause of each driver status',
    async () => {
      for (const [status, words] of [
        [802, 'nvidia-fabricmanager'],
        [803, 'two versions'],
        [804, 'forward-compatible'],
        [999, 'nvidia-modprobe'],
        [100, 'CUDA_VISIBLE_DEVICES may hide it'],
        [101, 'names a GPU that is not there'],
      ] as const) {
        const listed: Listed = await probe(cuda13, ['list', 'cuda:0'], {
          HOTSLOT_SOFTWARE_FAIL: `cuInit:1:${status}:forever`,
        });
        expect(reasonOf(listed, 'cuda'), String(status))
          .to.include(`cuInit: ${status})`)
          .and.include(words);
        expect(listed.refused.message).to.include(words);
      }
      const amd: Listed = await probe(hip, ['list', 'rocm:0'], {
        HOTSLOT_SOFTWARE_FAIL: 'hipInit:1:100:forever',
      });
      expect(reasonOf(amd, 'rocm'))
        .to.include('finds no GPU')
        .and.include('/dev/kfd')
        .and.include('render');
      const exclusive: Listed = await probe(cuda13, ['list', 'cuda:0'], {
        HOTSLOT_SOFTWARE_FAIL: 'cuDevicePrimaryCtxRetain:1:46:forever',
      });
      expect(JSON.stringify(exclusive.refused)).to.include('nvidia-smi -c 0');
      for (const [status, words] of [
        [221, 'libnvidia-ptxjitcompiler.so.1 is missing'],
        [223, 'unset CUDA_DISABLE_PTX_JIT'],
      ] as const) {
        const { message } = await probe(cuda13, ['kernels'], {
          HOTSLOT_SOFTWARE_FAIL: `cuModuleLoadData:1:${status}:forever`,
        });
        expect(message, String(status)).to.include(words);
      }
    },
  );

  it("traits.matrixProducts names a cuBLAS that does not load, and Hotslot's own kernel", async () => {
    const products: string = await probe(cuda13, ['products'], {
      HOTSLOT_CUBLAS: '/no/such/libcublas.so.13',
    });
    expect(products).to.match(
      /^Hotslot's own kernel \(.*\/no\/such\/libcublas\.so\.13.*HOTSLOT_CUBLAS\)/,
    );
  });

  it('listDevices() names a library that is no driver or does not exist', async () => {
    const named = (path: string) => ({
      HOTSLOT_CUDA: path,
      HOTSLOT_HIP: path,
      HOTSLOT_LEVEL_ZERO: path,
    });
    const no: Listed = await probe(cuda13, ['list', 'rocm:0'], named(stranger));
    for (const [family, what] of [
      ['cuda', 'cuInit'],
      ['rocm', 'hipInit'],
      ['xpu', 'zeInit'],
    ])
      expect(reasonOf(no, family as string))
        .to.include(stranger)
        .and.include(what);
    expect(no.refused.message).to.include(stranger);
    const gone: Listed = await probe(cuda13, ['list', 'xpu:0'], named('/no/such/driver.so'));
    for (const family of ['cuda', 'rocm', 'xpu'])
      expect(reasonOf(gone, family))
        .to.include('/no/such/driver.so')
        .and.match(/install /);
  });

  for (const [mode, told] of [
    [cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,memory=1000000' }],
    [hip, { HOTSLOT_SOFTWARE_HIP: 'memory=1000000' }],
    [ze, { HOTSLOT_SOFTWARE_ZE: 'modern,memory=1' }],
  ] as const) {
    ofFamily(mode)(
      `${mode.name}: allocate() names the requested and the free bytes when memory runs out`,
      async function () {
        need(this, mode);
        const { free, ...error } = await probe(mode, ['memory'], told);
        expect(error).to.include({ name: 'RangeError', code: 'ERR_HOTSLOT_MEMORY' });
        expect(error.message).to.match(
          /: 4194304 bytes were asked for, \d+ are free: use fewer or smaller slots/,
        );
        expect(free).to.be.within(900_000, 1_100_000);
      },
    );
  }

  it(`${ze.name}: cached memory counts as free, and is freed for new allocations`, async function () {
    need(this, ze);
    const { frees, left, ...error } = await probe(ze, ['keptAsFree'], {
      HOTSLOT_SOFTWARE_ZE: 'modern,memory=1',
    });
    expect(error).to.include({ name: 'RangeError', code: 'ERR_HOTSLOT_MEMORY' });
    expect(error.message).to.match(
      /: 900000 bytes were asked for, \d+ are free: use fewer or smaller slots/,
    );
    expect([frees, left], 'cached memory counts as free').to.deep.equal([[0, 0, 0], 0]);
  });

  it('Level Zero devices use managed memory of another device only if the driver shares it', async function () {
    need(this, ze14);
    const two = (words: string) => ({ HOTSLOT_SOFTWARE_ZE: `${words},devices=2` });
    const all = [
      'preferHere',
      'preferCpu',
      'preferThere',
      'accessThere',
      'prefetchHere',
      'prefetchAcross',
    ];
    const names = [...all, 'prefetchThere', 'fill', 'nothing'];
    for (const [mode, words, refused, values] of [
      [ze, 'modern', ['prefetchAcross'], [12, 11]],
      [
        ze,
        'modern,shared=single',
        ['preferThere', 'accessThere', 'prefetchAcross', 'prefetchThere', 'fill'],
        [11],
      ],
      [ze14, 'spec=1.4', [...all.slice(1, 4), 'prefetchAcross', 'prefetchThere', 'fill'], [11]],
    ] as const) {
      const managed = await probe(mode, ['managedAcross'], two(words));
      expect(names.filter((name) => managed.said[name].message !== undefined)).to.deep.equal([
        ...refused,
      ]);
      expect(managed.values).to.deep.equal(values);
      expect(managed.residency).to.deep.equal({ location: -2, preferred: -2, accessedBy: [] });
      const { preferCpu, prefetchAcross, fill } = managed.said;
      expect(prefetchAcross.code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
      expect(prefetchAcross.message).to.match(
        /^xpu:0: .* for xpu:1 prefetch on a stream of that device/,
      );
      if (preferCpu.message) expect(preferCpu.code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
      if (fill.message) expect(fill.message).to.include('xpu:1 does not reach the memory of xpu:0');
    }
  });
  for (const [mode, told] of [
    [cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,memory=8000000' }],
    [hip, { HOTSLOT_SOFTWARE_HIP: 'memory=8000000' }],
  ] as const) {
    ofFamily(mode)(
      `${mode.name}: cached memory is freed for new allocations, also in a capture`,
      async () => {
        const { captured, free, ...error } = await probe(mode, ['kept'], told);
        expect(free).to.equal(8_000_000);
        for (const { code, message } of [error, captured]) {
          expect(code).to.equal('ERR_HOTSLOT_MEMORY');
          expect(message).to.match(
            /: 8388608 bytes were asked for, \d+ are free: use fewer or smaller slots/,
          );
        }
      },
    );
  }

  for (const [mode, variable, told, why] of [
    [cuda13, 'HOTSLOT_SOFTWARE_CUDA', '13.0,managed=none', 'this device has no managed memory'],
    [
      cuda13,
      'HOTSLOT_SOFTWARE_CUDA',
      '13.0,managed=exclusive',
      'this device and the CPU cannot use managed memory',
    ],
    [hip, 'HOTSLOT_SOFTWARE_HIP', 'managed=none', 'this device has no managed memory'],
    [
      hip,
      'HOTSLOT_SOFTWARE_HIP',
      'managed=exclusive',
      'this device and the CPU cannot use managed memory',
    ],
  ] as const) {
    ofFamily(mode)(`${mode.name}, ${told}: allocateManaged() throws with the reason`, async () => {
      const refused = await probe(mode, ['unmanaged'], { [variable]: told });
      expect(refused.why).to.include(why);
      expect(refused.code).to.equal('ERR_HOTSLOT_UNAVAILABLE');
      const family = mode.device.split(':')[0];
      expect(refused.message).to.equal(`${family}: managed memory cannot be had: ${refused.why}`);
    });
  }

  it('a GPU without a matching code object copies, and launch() throws with the reason', async () => {
    const { values, ...error } = await probe(hip, ['kernels'], {
      HOTSLOT_SOFTWARE_HIP: 'arch=gfx942',
    });
    expect(error).to.include({ code: 'ERR_HOTSLOT_UNAVAILABLE' });
    expect(error.message).to.match(
      /'axpby' cannot run: .*NO_BINARY_FOR_GPU.*npm run build:kernels/,
    );
    expect(values).to.deep.equal([1, 2, 3, 4]);
  });

  it('launch() uses the code object in the file of HOTSLOT_HIP_KERNELS', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-kernels-'));
    try {
      const file = join(folder, 'gfx942.hsaco');
      writeFileSync(file, 'HOTSLOT-SOFTWARE-HSACO\narch gfx942\naxpby\n');
      const told = { HOTSLOT_SOFTWARE_HIP: 'arch=gfx942', HOTSLOT_HIP_KERNELS: file };
      expect(await probe(hip, ['kernels'], told)).to.deep.equal({ values: [1, 2, 3, 4] });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('launch() throws with advice when the driver is too old for the PTX', async () => {
    const { values, ...error } = await probe(cuda13, ['kernels'], {
      HOTSLOT_SOFTWARE_CUDA: '12.0,ptx=6.0',
    });
    expect(error.message).to.match(
      /'axpby' cannot run: .*UNSUPPORTED_PTX_VERSION.*install a newer driver/,
    );
    expect(values).to.deep.equal([1, 2, 3, 4]);
  });

  for (const [mode, told] of [
    [cuda13, { HOTSLOT_SOFTWARE_CUDA: '13.0,register=refuse' }],
    [hip, { HOTSLOT_SOFTWARE_HIP: 'register=refuse' }],
  ] as const) {
    ofFamily(mode)(
      `${mode.name}: a pipeline runs without pinned memory, warns, and reports pageable memory`,
      async () => {
        const { warnings, ticks, transferManifest, ...came } = await probe(
          mode,
          ['pageable'],
          told,
        );
        // There are no copies from or to pageable memory, because they block their callers. Scalars
        // and weights arrive anyway.
        expect(came).to.deep.equal({
          pageable: 0,
          scalars: { count: 10.5 },
          version: 4,
          weights: [20],
        });
        // One warning for the slots and one for the mailbox.
        expect(warnings).to.have.length(2);
        for (const text of warnings)
          expect(text).to.match(/not pinned.*HostRegister failed with NOT_SUPPORTED/);
        expect(ticks).to.equal(20);
        expect(transferManifest).to.include({
          hostMemoryKind: 'pageable_shared',
          hostPinned: false,
          directPinnedShared: false,
        });
      },
    );
  }

  it('transferManifest reports missing import and timestamps of Level Zero, without a warning', async function () {
    need(this, ze14);
    const { warnings, transferManifest } = await probe(modes.zeBare, ['pageable']);
    expect(warnings).to.deep.equal([]);
    expect(transferManifest).to.include({
      backend: 'XpuReplayTransferBackend',
      h2dSubmitter: 'level_zero',
      hostMemoryKind: 'pageable_shared',
      hostPinned: false,
      directPinnedShared: false,
      supportsTimingEvents: false,
    });
  });

  for (const mode of [ze, modes.zeIntel]) {
    it(`${mode.name}: transferManifest reports imported host memory`, async function () {
      need(this, mode);
      const { transferManifest } = await probe(mode, ['pageable']);
      expect(transferManifest).to.include({ hostMemoryKind: 'imported_shared', hostPinned: true });
    });
  }

  for (const mode of [cuda13, hip, ze14]) {
    ofFamily(mode)(
      `${mode.name}: two pipelines on one device run independently`,
      async function () {
        need(this, mode);
        expect(await probe(mode, ['two'])).to.deep.equal({ ticks: [200, 300], counts: [200, 300] });
      },
    );

    ofFamily(mode)(
      `${mode.name}: ${kills} threads killed inside the driver leave no object, and a later copy works`,
      async function () {
        need(this, mode);
        const { before, after, values } = await probe(mode, ['killed', String(kills)]);
        const left = counts(after);
        // The device caches staging memory for the next read or write.
        delete left.host_allocations;
        delete left.host_allocation_bytes;
        const more = Object.entries(left).filter(
          ([kind, count]) => count > (counts(before)[kind] ?? 0),
        );
        expect(more).to.deep.equal([]);
        expect(values).to.deep.equal([1, 2, 3, 4]);
      },
    );
  }
});
