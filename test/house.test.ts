/**
 * Checks the repository's rules in the sources. They say which file may import which, which may
 * call the addons, and how a file begins. docs/contributing/design/README.md has the reasons.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { pagesOfDocs } from './rig/pages.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Returns the files of a folder at any depth that have one of these endings, as paths relative to
 * the repository's root.
 */
const filesOf = (folder: string, ...ends: string[]): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => ends.some((end) => name.endsWith(end)))
    .map((name) => `${folder}/${name}`)
    .sort();
const textOf = (file: string): string => readFileSync(join(root, file), 'utf8');

const sources = [...filesOf('src', '.ts'), ...filesOf('actors', '.ts')];
const examples = filesOf('examples', '.ts');
const natives = filesOf('native', '.cpp', '.hpp', '.h', '.gk').filter(
  (file) => !file.startsWith('native/build/'),
);

const files = new Set(filesOf('native', '.hpp', '.h', '.inc', '.gk', '.cpp'));

/** Returns what the file imports, also types: paths relative to the root, or names of packages. */
function importsOf(file: string): string[] {
  const found = textOf(file).matchAll(
    /^(?:import|export)\b[^;]*?\bfrom '([^']+)'|\bimport\(\s*'([^']+)'|^import '([^']+)'/gm,
  );
  return [...found]
    .map(([, from, called, bare]) => (from ?? called ?? bare) as string)
    .map((name) => (name.startsWith('.') ? normalize(join(dirname(file), name)) : name));
}

/**
 * Returns the layer of a file. src/engine/ring/slot.ts is in `engine`. Files directly in src, and
 * those in src/entries, are in `entries`.
 */
function layerOf(file: string): string {
  const [top, layer, more] = file.split('/') as [string, string, string | undefined];
  return top === 'src' ? (more === undefined ? 'entries' : layer) : top;
}
const inRoom = (file: string, rooms: readonly string[]) =>
  rooms.some((room) => file === room || file.startsWith(`${room}/`));

/** The lower layers that each layer may import. */
const below: Readonly<Record<string, readonly string[]>> = {
  base: [],
  shm: ['base'],
  store: ['base', 'shm'],
  device: ['base', 'shm', 'store'],
  engine: ['base', 'shm', 'store', 'device'],
  actors: ['base', 'shm', 'store', 'device', 'engine'],
  learn: ['base', 'shm', 'store', 'device'],
  run: ['base', 'shm', 'store', 'device', 'engine', 'learn'],
  net: ['base', 'shm', 'store', 'device', 'engine', 'learn', 'run'],
  cli: ['base', 'shm', 'store', 'device', 'engine', 'learn', 'run', 'net'],
  extras: ['base', 'shm', 'store', 'device', 'engine', 'learn', 'run', 'net', 'cli'],
  entries: [
    'base',
    'shm',
    'store',
    'device',
    'engine',
    'learn',
    'run',
    'net',
    'cli',
    'extras',
    'actors',
  ],
};
/** Files outside the layers that these files may import to open pipelines. */
const assembled: Readonly<Record<string, readonly string[]>> = {
  'src/assembly.ts': ['src/cli/self-test.ts'],
};

/**
 * The folders of native code that each folder may include. No device family includes another,
 * except ROCm's: it is CUDA's code over the table of HIP's functions.
 */
const nativeKnows: Readonly<Record<string, readonly string[]>> = {
  wait: [],
  kernels: ['wait', 'device/core'],
  'device/core': ['wait', 'kernels'],
  'device/gpu': ['wait', 'device/core'],
  'device/host': ['wait', 'kernels', 'device/core'],
  'device/cuda': ['wait', 'kernels', 'device/core', 'device/gpu'],
  'device/hip': ['wait', 'kernels', 'device/core', 'device/gpu', 'device/cuda'],
  'device/level_zero': ['wait', 'kernels', 'device/core', 'device/gpu'],
  'device/addon': ['wait', 'kernels', 'device/core', 'device/gpu'],
  system: ['wait', 'device/addon'],
  rows: ['wait', 'device/addon'],
  pack: ['wait', 'rows', 'device/addon'],
  submit: ['wait', 'device/addon'],
  poll: ['wait', 'device/addon'],
  replay: ['wait', 'device/addon'],
  ranks: ['wait', 'device/addon', 'device/core'],
};

/** The only folders and files that may import a file or a package. */
const doors: Readonly<Record<string, readonly string[]>> = {
  // The functions of system.node.
  'src/base/system-addon.ts': [
    'src/base',
    'src/shm',
    'src/run/checkpoint/folder.ts',
    'src/run/environments/gymnasium/child.ts',
    'src/extras/unified-memory/probe.ts',
  ],
  // The functions of device.node.
  'src/device/native.ts': [
    'src/device',
    'src/extras',
    'actors',
    'src/engine/pipeline',
    'src/cli/doctor.ts',
  ],
  // The functions of submit.node, poll.node and replay.node.
  'src/device/transfer/native.ts': [
    'src/device/transfer',
    'actors',
    'src/engine/pipeline',
    'src/entries/transfer.ts',
  ],
  // The functions of rows.node.
  'src/store/rows/rows-addon.ts': ['src/store'],
  'src/store/lanes/lanes-addon.ts': ['src/store', 'src/engine/pipeline/source.ts'],
  'src/store/rows/persistence-addon.ts': ['src/store'],
  eventemitter3: ['src/engine/pipeline', 'src/run/checkpoint'],
  piscina: ['src/shm/task-thread.ts'],
  '@redis/client': ['src/net/remote/redis-connection.ts'],
  comlink: ['src/shm/control.ts', 'src/shm/comlink.d.ts'],
};

/** Packages that examples import, and the files that may. */
const outside: Readonly<Record<string, readonly string[]>> = {
  '@mujoco/mujoco': ['examples/environments/mujoco/engine.ts'],
};

describe('repository rules', () => {
  it('every source file belongs to a layer and imports only its own and lower layers', () => {
    const wrong: string[] = [];
    for (const file of sources) {
      const layer = layerOf(file);
      const allowed = [layer, ...(below[layer] ?? [])];
      if (below[layer] === undefined) wrong.push(`${file} is of no layer`);
      for (const to of importsOf(file))
        if (
          /^(src|actors)\//.test(to) &&
          !allowed.includes(layerOf(to)) &&
          !assembled[to]?.includes(file)
        )
          wrong.push(`${file} → ${to}`);
    }
    expect(wrong).to.deep.equal([]);
  });

  it('native files include only files of their own folder and the folders in `nativeKnows`', () => {
    const wrong: string[] = [];
    for (const file of natives) {
      const folder = dirname(file);
      const room = folder.startsWith('native/kernels') ? 'kernels' : folder.slice('native/'.length);
      const allowed = [room, ...(nativeKnows[room] ?? [])].map((each) => `native/${each}/`);
      for (const [, name] of textOf(file).matchAll(/^#include "([^"]+)"/gm)) {
        // The compiler looks next to the file, then in native/.
        const to = [join(folder, name!), `native/${name}`].find((each) => files.has(each));
        if (!to || !allowed.some((each) => to.startsWith(each)))
          wrong.push(`${file} → ${to ?? name}`);
      }
    }
    expect(wrong).to.deep.equal([]);
  });

  it('test files are named *.long.test.ts if and only if `test:all` adds or lengthens tests', () => {
    // A file makes such tests if it imports these functions, or imports a file that makes them for
    // others.
    const makes =
      /^import \{[^}]*\b(itLonger|itAll|describeAll)\b[^}]*\} from '[^']*rig\/setting\.ts';$/m;
    const makers = filesOf('test', '.ts').filter(
      (file) => !file.endsWith('.test.ts') && makes.test(textOf(file)),
    );
    const tests = filesOf('test', '.test.ts');
    const longer = (file: string) =>
      makes.test(textOf(file)) || importsOf(file).some((imported) => makers.includes(imported));
    expect(tests.filter(longer)).to.deep.equal(
      tests.filter((file) => file.endsWith('.long.test.ts')),
    );
  });

  it('every all.cpp includes all .cpp files of its folder except bindings', () => {
    for (const all of natives.filter((file) => file.endsWith('/all.cpp'))) {
      const there = filesOf(dirname(all), '.cpp').filter(
        (file) => !/\/(all|(\w+_)?binding)\.cpp$/.test(file),
      );
      const named = [...textOf(all).matchAll(/^#include "([^"]+)"/gm)].map(
        ([, name]) => `native/${name}`,
      );
      expect(named, all).to.deep.equal(there);
    }
  });

  it('shipped sources import nothing from test, bench or examples', () => {
    const all = sources.flatMap((file) => importsOf(file).map((to) => [file, to] as const));
    expect(all.filter(([, to]) => /^(test|bench|examples)\//.test(to))).to.deep.equal([]);
  });

  it('sources have no import cycles', () => {
    const over = new Set<string>();
    const path: string[] = [];
    const walk = (file: string): void => {
      if (path.includes(file)) expect.fail([...path.slice(path.indexOf(file)), file].join(' → '));
      if (over.has(file)) return;
      path.push(file);
      for (const to of importsOf(file)) if (sources.includes(to)) walk(to);
      path.pop();
      over.add(file);
    };
    for (const file of sources) walk(file);
    expect(over.size).to.equal(sources.length);
  });

  it('sources import packages and addon modules only where `doors` allows', () => {
    const wrong: string[] = [];
    for (const file of sources)
      for (const to of importsOf(file)) {
        const named = /^(src|actors)\//.test(to) ? to : /^(@[^/]+\/)?[^/]+/.exec(to)![0];
        const allowed = doors[named];
        if (allowed && !inRoom(file, allowed)) wrong.push(`${file} → ${to}`);
        if (!allowed && !/^(src|actors|node:)/.test(to))
          wrong.push(`${file} → ${to}, which no rule names`);
      }
    expect(wrong).to.deep.equal([]);
  });

  it('only task-thread.ts and thread.ts in src/shm start threads', () => {
    const starts =
      /\bnew (Worker|Piscina)\b|^import [^;]*\bWorker\b[^;]* from 'node:worker_threads'/m;
    const found = sources.filter((file) => starts.test(textOf(file)));
    expect(found).to.deep.equal(['src/shm/task-thread.ts', 'src/shm/thread.ts']);
  });

  it('examples import only public entries, other examples, Node and listed packages', () => {
    const wrong: string[] = [];
    for (const file of examples)
      for (const to of importsOf(file))
        if (
          !/^src\/(index|entries\/\w+)\.ts$|^(examples\/|node:)/.test(to) &&
          !(to in outside && inRoom(file, outside[to]!))
        )
          wrong.push(`${file} → ${to}`);
    expect(wrong).to.deep.equal([]);
  });

  it('sources call String() in template literals only in collector-pool.ts', () => {
    // A collector may throw a value that is not an Error. Its text is all that can be reported.
    const wrong = sources.filter((file) => /\$\{[^}`]*\bString\(/.test(textOf(file)));
    expect(wrong).to.deep.equal(['src/run/collectors/collector-pool.ts']);
  });

  it('every protocol rule is defined once, and every cited rule is defined', () => {
    // A rule's definition has two spaces after its name, and a citation has not.
    const definition = /^\s*(?:\*|\/\/) +([A-Z]\w*-\d+) {2}/gm;
    const defined = new Map<string, string[]>();
    for (const file of [...sources, ...natives])
      for (const [, rule = ''] of textOf(file).matchAll(definition))
        defined.set(rule, [...(defined.get(rule) ?? []), file]);
    const twice = [...defined].filter(([, places]) => places.length > 1);
    expect(twice, 'rules that are defined more than once').to.deep.equal([]);
    expect(defined.size).to.be.at.least(100);
    const rooms = new Set([...defined.keys()].map((rule) => rule.replace(/-\d+$/, '')));
    const cited = new RegExp(`\\b(${[...rooms].join('|')})-(\\d+)\\b`, 'g');
    const tests = filesOf('test', '.ts', '.cpp', '.hpp').filter(
      (file) => !file.includes('fixtures'),
    );
    const pages = pagesOfDocs().filter((page) => page.startsWith('docs/contributing/design/'));
    expect(pages.length).to.be.at.least(7);
    const unknown = [...sources, ...natives, ...tests, ...pages].flatMap((file) =>
      [...textOf(file).matchAll(cited)].map(([rule]) => rule).filter((rule) => !defined.has(rule)),
    );
    expect(unknown, 'rules that are cited and not defined').to.deep.equal([]);
  });

  it('every source, native, example, bench and test file starts with a comment', () => {
    const all = [
      ...sources,
      ...examples,
      ...natives,
      ...filesOf('bench', '.ts'),
      ...filesOf('test', '.ts', '.cpp', '.hpp'),
    ];
    const wrong = all.filter((file) => !/^(#!.*\n|#pragma once\n)*\s*\/[*/]/.test(textOf(file)));
    expect(wrong).to.deep.equal([]);
  });
});
