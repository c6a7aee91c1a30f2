/**
 * Tests the package as users get it: packed, installed from a lockfile without scripts, checked by
 * other projects' tools, and built from source.
 */
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { describeAll, itLong, setting } from '../rig/setting.ts';
import { strict } from '../types/rig.ts';
import { leaveUnlessHad, run } from './tools.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

/** Writes the files of the README's quick start. */
function writeQuickStart(folder: string): void {
  const text = readFileSync(join(root, 'README.md'), 'utf8');
  const files = [...text.matchAll(/^```js\n\/\/ (\S+\.mjs)\n(.*?)^```$/gms)];
  expect(files.map(([, name]) => name)).to.deep.equal(['corridor.mjs', 'train.mjs']);
  for (const [, name = '', code = ''] of files) writeFileSync(join(folder, name), code);
}

describeAll('npm package', function () {
  this.timeout(600_000);
  let place = '';
  let tarball = '';
  let listed: string[] = [];

  before(() => {
    place = mkdtempSync(join(tmpdir(), 'hotslot-package-'));
    const { status, stdout, stderr } = spawnSync(
      'npm',
      ['pack', '--json', '--pack-destination', place],
      {
        cwd: root,
        encoding: 'utf8',
        maxBuffer: 1 << 28,
      },
    );
    expect(status, stderr).to.equal(0);
    const [packed] = JSON.parse(stdout.slice(stdout.indexOf('['))) as [
      { filename: string; files: { path: string }[] },
    ];
    tarball = join(place, packed.filename);
    listed = packed.files.map(({ path }) => path);
  });
  after(() => rmSync(place, { recursive: true, force: true }));

  /**
   * Creates a project folder, and an environment with the versions of node and npm that `extra`
   * names.
   */
  async function project(
    context: Mocha.Context,
    name: string,
    extra: readonly string[] = [],
  ): Promise<{ folder: string; env: NodeJS.ProcessEnv }> {
    const folder = join(place, name);
    mkdirSync(folder);
    writeFileSync(
      join(folder, 'package.json'),
      JSON.stringify({ name, private: true, type: 'module' }),
    );
    const env: NodeJS.ProcessEnv = {};
    if (extra.length > 0) {
      const tools = join(place, `${name}-tools`);
      mkdirSync(tools);
      writeFileSync(join(tools, 'package.json'), '{"private":true}');
      // npm's package `node` downloads its binary in an install script.
      const { code, text } = await run(tools, 'npm', ['install', '--foreground-scripts', ...extra]);
      leaveUnlessHad(context, extra, code, text);
      env.PATH = [join(tools, 'node_modules/.bin'), process.env.PATH].join(delimiter);
    }
    return { folder, env };
  }

  it('contains the required files, and no tests, source maps or install scripts', () => {
    for (const wanted of [
      'LICENSE',
      'NOTICE',
      'README.md',
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
      'docs/reference/pipeline.md',
      'prebuilds/binding.gyp',
      'src/net/monitor/page/page.html',
    ])
      expect(listed).to.include(wanted);
    for (const arch of ['x64', 'arm64'])
      if (existsSync(join(root, `prebuilds/linux-${arch}`)))
        expect(listed.filter((path) => path.startsWith(`prebuilds/linux-${arch}/`))).to.have.length(
          8,
        );
    // npm compiles if there is a binding.gyp at the top, for an install from a lockfile even with
    // `gypfile: false`.
    expect(listed).to.not.include('binding.gyp');
    expect(
      listed.filter((path) =>
        /\.map$|^test|^bench(?!\/results\/)|node_modules|\/build\//.test(path),
      ),
    ).to.deep.equal([]);
    for (const path of listed.filter((each) => /\.d\.ts$/.test(each)))
      expect(readFileSync(join(root, path), 'utf8'), path).to.not.match(/sourceMappingURL/);
    const { stdout } = spawnSync('tar', ['-xzOf', tarball, 'package/package.json'], {
      encoding: 'utf8',
    });
    const { scripts } = JSON.parse(stdout) as { scripts: Record<string, string> };
    // npm warns users about each of these scripts.
    for (const script of ['preinstall', 'install', 'postinstall', 'prepare'])
      expect(scripts).to.not.have.property(script);
    const { os, keywords } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Record<
      string,
      unknown
    >;
    expect([os, (keywords as string[]).length > 5]).to.deep.equal([undefined, true]);
  });

  it('contains every file that its pages link to', () => {
    const held = new Set(listed.flatMap((path) => [path, dirname(path)]));
    const dead = listed
      .filter((path) => path.endsWith('.md'))
      .flatMap((page) =>
        [
          ...readFileSync(join(root, page), 'utf8').matchAll(
            /\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)/g,
          ),
        ]
          .map(([, file = '']) => join(dirname(page), file))
          .filter((file) => !held.has(file))
          .map((file) => `${page}: ${file}`),
      );
    expect(dead).to.deep.equal([]);
  });

  const matrix = setting<[string, string[]][]>({
    short: [],
    all: [['the npm and Node of this machine', []]],
    long: [
      ['the npm and Node of this machine', []],
      ['npm 10 and Node 20', ['npm@10', 'node@20']],
      ['npm 10 and Node 22', ['npm@10', 'node@22']],
      ['npm 11 and Node 24', ['npm@11', 'node@24']],
      ['npm 12 and Node 24', ['npm@12', 'node@24']],
    ],
  });
  for (const [i, [title, tools]] of matrix.entries()) {
    it(`installs from its tarball and from a lockfile and runs the quick start with ${title}`, async function () {
      const { folder, env } = await project(this, `app${i}`, tools);
      const step = async (command: string, ...args: string[]) => {
        const { code, text } = await run(folder, command, args, env);
        expect(code, `${command} ${args.join(' ')}:\n${text}`).to.equal(0);
        return text;
      };
      expect(await step('npm', 'install', tarball)).to.not.match(/install[- ]scripts/);
      rmSync(join(folder, 'node_modules'), { recursive: true });
      const installed = await step('npm', 'ci');
      expect(installed).to.not.match(/gyp/);
      const doctor = await step('npx', 'hotslot', 'doctor');
      expect(doctor).to.match(/Hotslot works here on .*host:0/);
      expect(doctor).to.match(/addon device .*prebuilds\/linux-/);
      writeQuickStart(folder);
      expect(await step('node', 'train.mjs')).to.match(/^true\n1$/m);
    });
  }

  /**
   * Other package managers and runtimes: how each installs the tarball, runs the doctor and runs a
   * program.
   */
  const others = setting<[string, string, [string, ...string[]][]][]>({
    short: [],
    all: [],
    long: [
      [
        'pnpm',
        'pnpm',
        [
          ['pnpm', 'add', 'TARBALL'],
          ['pnpm', 'exec', 'hotslot', 'doctor'],
          ['node', 'train.mjs'],
        ],
      ],
      [
        'Bun',
        'bun',
        [
          ['bun', 'add', 'TARBALL'],
          ['bunx', '--bun', 'hotslot', 'doctor'],
          ['bun', 'train.mjs'],
        ],
      ],
      [
        'Deno',
        'deno',
        [
          ['npm', 'install', '--ignore-scripts', 'TARBALL'],
          ['deno', 'run', '-A', 'npm:hotslot', 'doctor'],
          ['deno', 'run', '-A', 'train.mjs'],
        ],
      ],
    ],
  });
  for (const [title, tool, commands] of others)
    it(`installs and runs the quick start with ${title}`, async function () {
      const { folder, env } = await project(this, tool, [tool]);
      writeQuickStart(folder);
      const texts: string[] = [];
      for (const [command, ...args] of commands) {
        const given = args.map((each) => (each === 'TARBALL' ? tarball : each));
        const { code, text } = await run(folder, command, given, env);
        expect(code, `${command} ${given.join(' ')}:\n${text}`).to.equal(0);
        expect(text, command).to.not.match(/^\s+at .+:\d+:\d+\)?$/m);
        texts.push(text);
      }
      expect(texts[1]).to.match(/Hotslot works here on .*host:0/);
      expect(texts[2]).to.match(/^true\n1$/m);
    });

  itLong(
    'reports the remedy and builds its addons when no prebuilt addons exist',
    async function () {
      const { folder } = await project(this, 'builds');
      const ok = async (command: string, ...args: string[]) => {
        const { code, text } = await run(folder, command, args);
        expect(code, text).to.equal(0);
        return text;
      };
      await ok('npm', 'install', '--ignore-scripts', tarball);
      const package_ = join(folder, 'node_modules/hotslot');
      for (const name of readdirSync(join(package_, 'prebuilds')).filter((each) =>
        each.startsWith('linux-'),
      ))
        rmSync(join(package_, 'prebuilds', name), { recursive: true });
      const doctor = await run(folder, 'npx', ['hotslot', 'doctor']);
      expect(doctor.code).to.equal(1);
      expect(doctor.text).to.include('npx hotslot build').and.not.include('npm run');
      const without = await run(folder, 'npx', ['hotslot', 'build'], { CXX: 'no-such-compiler' });
      expect(without.code).to.equal(1);
      expect(without.text).to.match(/not installed: 'no-such-compiler'; .*apt-get install g\+\+/);
      expect(await ok('npx', 'hotslot', 'build')).to.match(
        /built 8 addons into .*node_modules\/hotslot\/build\/Release/,
      );
      expect(await ok('npx', 'hotslot', 'doctor')).to.match(
        /addon device .*hotslot\/build\/Release\/device\.node/,
      );
    },
  );

  const newest: [string, string[]] = ['the newest TypeScript', ['typescript', '@types/node']];
  const compilers = setting({
    short: [],
    all: [newest],
    long: [
      ['TypeScript 5.4', ['typescript@5.4', '@types/node@20.12']] satisfies [string, string[]],
      newest,
    ],
  });
  const checkers = ['publint@0.3.25', '@arethetypeswrong/cli@0.18.5'];
  let consumer: { folder: string; tools: string[]; code: number | null; text: string } | undefined;
  /**
   * Returns a project with the package, the newest TypeScript and the checkers, which is installed
   * once.
   */
  const consumerOf = async (context: Mocha.Context): Promise<string> => {
    if (consumer === undefined) {
      const { folder } = await project(context, 'consumer');
      const tools = [...newest[1], ...checkers];
      const args = ['install', '--ignore-scripts', '--no-save', tarball, ...tools];
      consumer = { folder, tools, ...(await run(folder, 'npm', args)) };
    }
    const { folder, tools, code, text } = consumer;
    leaveUnlessHad(context, tools, code, text);
    return folder;
  };
  const older = async (context: Mocha.Context, tools: string[]): Promise<string> => {
    const { folder } = await project(context, 'older');
    const { code, text } = await run(folder, 'npm', [
      'install',
      '--ignore-scripts',
      '--no-save',
      tarball,
      ...tools,
    ]);
    leaveUnlessHad(context, tools, code, text);
    return folder;
  };
  for (const [title, tools] of compilers) {
    it(`compiles for a strict consumer with ${title}`, async function () {
      const folder = await (tools === newest[1] ? consumerOf(this) : older(this, tools));
      for (const name of readdirSync(strict)) cpSync(join(strict, name), join(folder, name));
      const { code, text } = await run(folder, 'npx', ['--no-install', 'tsc', '-p', '.']);
      expect(code, text).to.equal(0);
    });
  }

  it('passes the checks of publint and attw', async function () {
    const folder = await consumerOf(this);
    const publint = await run(folder, 'npx', ['publint', tarball, '--strict']);
    expect(publint.text).to.match(/All good/);
    const attw = await run(folder, 'npx', [
      'attw',
      tarball,
      '--profile',
      'esm-only',
      '--no-emoji',
      '--no-color',
    ]);
    expect(attw.code, attw.text).to.equal(0);
  });
});
