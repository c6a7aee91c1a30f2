// `npm run stage:gpu` packs what a machine with a GPU needs if it has neither Node nor a network.
// The archive in carry/ has Node, the built addons and scripts, and the packages of the tests.
// bench/gpu/run.sh unpacks it on that machine and runs from it.
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const carry = join(root, 'carry');
const packages = ['comlink', 'eventemitter3', 'piscina', 'mocha', 'chai'];

function run(command, args, options = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: root,
    encoding: 'utf8',
    ...options,
  });
  if (status !== 0) {
    console.error(`stage: ${command} ${args.join(' ')} failed: ${error?.message ?? stderr}`);
    process.exit(1);
  }
  return stdout;
}

/** Returns the folders of these packages and of all their dependencies under node_modules. */
function closure(names) {
  const found = new Set();
  const visit = (name, from) => {
    // A package may have its own version of a dependency in its folder.
    const nested = join(from, 'node_modules', name);
    const path = existsSync(join(root, nested)) ? nested : join('node_modules', name);
    if (found.has(path) || !existsSync(join(root, path))) return;
    found.add(path);
    const { dependencies = {}, optionalDependencies = {} } = JSON.parse(
      readFileSync(join(root, path, 'package.json'), 'utf8'),
    );
    for (const next of Object.keys({ ...dependencies, ...optionalDependencies })) visit(next, path);
  };
  for (const name of names) visit(name, '.');
  return [...found];
}

const mebibytes = (path) => statSync(path).size / 2 ** 20;

for (const path of ['dist/test/gpu/run.js', 'dist/bench/native.js', 'build/Release/device.node']) {
  if (existsSync(join(root, path))) continue;
  console.error(`stage: ${path} is not built; run: npm run stage:gpu`);
  process.exit(1);
}
const { buildRawCuda } = await import('../../dist/bench/native.js');
const raw = buildRawCuda();

const folder = mkdtempSync(join(tmpdir(), 'hotslot-stage-'));
try {
  const put = (from, to = from) =>
    cpSync(join(root, from), join(folder, to), { recursive: true, dereference: true });
  for (const part of ['bin', 'lib', 'build/Release', 'build/bench'])
    mkdirSync(join(folder, part), { recursive: true });
  copyFileSync(process.execPath, join(folder, 'bin/node'));
  for (const [, name, path] of run('ldd', [process.execPath]).matchAll(
    /(lib(?:stdc\+\+|gcc_s)\S*) => (\S+)/g,
  ))
    copyFileSync(realpathSync(path), join(folder, 'lib', name));
  for (const name of readdirSync(join(root, 'build/Release')))
    if (name.endsWith('.node')) put(`build/Release/${name}`);
  for (const path of [raw, `${raw}.key`]) put(path.slice(root.length));
  for (const part of ['package.json', 'dist', ...closure(packages)]) put(part);
  const git = (...args) => run('git', args).trim();
  const changed = git('status', '--porcelain', '--', '.', ':!bench/results') !== '';
  writeFileSync(
    join(folder, 'commit'),
    `${git('rev-parse', 'HEAD')}${changed ? ' with changes' : ''}\n`,
  );
  rmSync(carry, { recursive: true, force: true });
  mkdirSync(carry);
  const archive = join(carry, 'hotslot.tar.xz');
  run('tar', ['-C', folder, '--exclude=*.d.ts', '--exclude=*.d.ts.map', '-cJf', archive, '.'], {
    env: { ...process.env, XZ_OPT: '-6 -T0' },
  });
  const tree = run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'])
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(root, path)))
    .reduce((sum, path) => sum + mebibytes(join(root, path)), 0);
  const size = mebibytes(archive);
  console.log(
    `carry/hotslot.tar.xz: ${size.toFixed(1)} MiB; with the tree ${(size + tree).toFixed(1)} MiB`,
  );
  if (size + tree > 60) {
    console.error('stage: that is more than the 60 MiB that may travel');
    process.exit(1);
  }
  console.log(`there: bash ${join(dirname('bench/gpu/stage.mjs'), 'run.sh')}`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
