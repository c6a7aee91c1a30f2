// Prepares a checkout: installs missing packages, rebuilds outdated outputs, and prints a line for
// each step. Uses only Node's own modules, because it runs before packages are installed. `npm
// start`, `npm test` and `npm ci` run this file.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const addons = ['device', 'pack', 'submit', 'poll', 'replay', 'rows', 'ranks', 'system'];

function fail(sentence) {
  console.error(`hotslot: ${sentence}`);
  process.exit(1);
}

/** Returns one hash over the names and contents of all files in `paths`. */
function hash(paths) {
  const sum = createHash('sha256');
  const visit = (path) => {
    if (!existsSync(path)) return;
    if (statSync(path).isDirectory()) {
      for (const name of readdirSync(path).sort())
        if (name !== 'build' && name !== 'prebuild') visit(join(path, name));
      return;
    }
    sum.update(path.slice(root.length)).update('\0').update(readFileSync(path)).update('\0');
  };
  for (const path of paths) visit(join(root, path));
  return sum.digest('hex');
}

function run(what, command, args, env = {}) {
  const begin = Date.now();
  process.stderr.write(`hotslot: ${what} … `);
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (status === 0) {
    process.stderr.write(`${((Date.now() - begin) / 1000).toFixed(1)} s\n`);
    return;
  }
  process.stderr.write('failed\n');
  process.stderr.write(`${error?.message ?? ''}${stdout ?? ''}${stderr ?? ''}\n`);
  fail(`${what} failed (see above); the command was: ${command} ${args.join(' ')}`);
}

/**
 * Runs a step unless its outputs exist and its stamp file has the hash of the present inputs.
 * Writes the stamp file afterwards.
 */
async function step(name, inputs, outputs, work) {
  const stamp = join(root, 'node_modules', '.hotslot', name);
  const wanted = hash(inputs);
  const made = outputs.every((path) => existsSync(join(root, path)));
  if (made && existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  await work();
  mkdirSync(dirname(stamp), { recursive: true });
  writeFileSync(stamp, wanted);
}

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  fail(`Node ${process.versions.node} is too old: install Node 20.19 or newer.`);
}
if (process.platform !== 'linux')
  fail(`${process.platform} is not supported yet: Hotslot builds on Linux.`);

// npm runs the scripts prepare and postprepare after an install in a checkout. Hotslot uses
// postprepare, because npm warns users of a package that has a prepare script.
const inInstall = process.env.npm_lifecycle_event === 'postprepare';
const npm = process.env.npm_execpath;
const viaNpm = (...args) => (npm ? [process.execPath, [npm, ...args]] : ['npm', args]);

await step(
  'install',
  ['package.json', 'package-lock.json'],
  ['node_modules/typescript', 'node_modules/mocha'],
  () => {
    // npm install and npm ci have already installed the packages.
    if (!inInstall)
      run('installing packages', ...viaNpm('ci', '--ignore-scripts', '--no-audit', '--no-fund'));
  },
);

await step(
  'native',
  ['native', 'binding.gyp'],
  addons.map((name) => `build/Release/${name}.node`),
  () => {
    const compiler = process.env.CXX ?? 'g++';
    for (const [tool, debian] of [
      [compiler, 'g++'],
      ['make', 'make'],
      ['python3', 'python3'],
    ]) {
      if (spawnSync(tool, ['--version']).error) {
        fail(
          `the native code needs '${tool}', which is not installed: on Debian or Ubuntu run: apt-get install ${debian}`,
        );
      }
    }
    // If Node was unpacked from its archive, its headers are in the archive's folder. Otherwise
    // node-gyp finds or downloads the headers.
    const prefix = dirname(dirname(process.execPath));
    const own =
      existsSync(join(prefix, 'include/node/node_api.h')) && !process.env.npm_config_nodedir;
    run(
      'building the native code (a minute)',
      ...viaNpm('run', '-s', 'build:native'),
      own ? { npm_config_nodedir: prefix } : {},
    );
  },
);

await step(
  'typescript',
  ['src', 'actors', 'examples', 'bench', 'test', 'tsconfig.json'],
  ['dist/src/index.js'],
  () => {
    // Deletes old outputs first, so that the package has no compiled files of deleted sources.
    rmSync(join(root, 'dist'), { recursive: true, force: true });
    run('compiling TypeScript', ...viaNpm('run', '-s', 'build:ts'));
  },
);

// Builds the addons for the package, so that its users need no compiler.
if (process.argv.includes('--stage')) {
  const { architectures, hasCompiler, prebuild } = await import(
    '../../native/prebuild/prebuild.mjs'
  );
  for (const { arch, compiler, debian } of architectures) {
    if (!hasCompiler(compiler)) {
      console.error(
        `hotslot: no ${compiler}, so no prebuilt addons for linux-${arch}: apt-get install ${debian}`,
      );
      continue;
    }
    const built = addons.map((name) => `prebuilds/linux-${arch}/${name}.node`);
    const begin = Date.now();
    await step(`prebuilt-${arch}`, ['native', 'native/prebuild', 'binding.gyp'], built, () =>
      prebuild(arch),
    );
    console.error(
      `hotslot: prebuilt addons for linux-${arch} … ${((Date.now() - begin) / 1000).toFixed(1)} s`,
    );
  }
}
