/**
 * Tests the committed device images: they are built from the present sources, old drivers can load
 * them, and they compute what the host forms compute.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { nativeKernels } from '../../src/device/native.ts';
import { buildDriverProgram } from '../drivers/build.ts';
import { itAll, itLong, setting } from '../rig/setting.ts';
import { cppOf, UnknownPtx } from './ptx.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const sources = join(root, 'native/kernels');
const lists = ['ptx', 'spirv', 'hsaco'];
const sha256Of = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');

/**
 * Hashes the sources like native/kernels/table.cmake: the hash of what `sha256sum` prints in that
 * folder.
 */
function hashSources(): string {
  const names = ['', 'test/'].flatMap((folder) =>
    readdirSync(join(sources, folder))
      .filter((name) => name.endsWith('.gk') || name === 'gk.hpp')
      .map((name) => folder + name),
  );
  return sha256Of(
    names
      .sort()
      .map((name) => `${sha256Of(readFileSync(join(sources, name)))}  ${name}\n`)
      .join(''),
  );
}

interface Image {
  format: string;
  file: string;
  bytes: string;
  sha256: string;
  compiler: string;
  sources: string;
}

const images = join(sources, 'images');
/** Reads a table of images. */
function imagesIn(folder: string, list: string): Image[] {
  const keys = ['format', 'file', 'bytes', 'sha256', 'compiler', 'sources'] as const;
  const rows = readFileSync(join(folder, `${list}.inc`), 'utf8').matchAll(/^IMAGE\(\w+, (.*)\)$/gm);
  return [...rows].map(([, row = '']) => {
    const values = row.split(', ').map((value) => value.replaceAll('"', ''));
    return Object.fromEntries(keys.map((key, i) => [key, values[i]])) as unknown as Image;
  });
}

const image = (file: string) => readFileSync(join(images, file));
const ptx = () => image('kernels.ptx').toString();

/**
 * Returns the name or path of a program that runs, from PATH or one of the folders. Returns
 * undefined if there is none.
 */
function tool(name: string, ...folders: string[]): string | undefined {
  return [name, ...folders.map((folder) => join(folder, name))].find(
    (program) => spawnSync(program, ['--version']).status === 0,
  );
}

/** Runs a program and returns its output. Throws its output if it fails. */
function run(program: string, ...args: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: root,
    encoding: 'utf8',
  });
  if (status !== 0)
    throw new Error(
      `${program} ended with ${status}: ${error ?? ''}${stdout}${stderr}`.slice(0, 8000),
    );
  return stdout;
}

/**
 * Returns the parameters that the core passes to each kernel: a letter for each pointer (p), whole
 * number (w) and real (r).
 */
function registry(): Map<string, string> {
  return new Map(
    nativeKernels()
      .kernels()
      .map(({ name, tensors, wholes, reals }) => [
        name,
        'p'.repeat(tensors) + 'w'.repeat(wholes) + 'r'.repeat(reals),
      ]),
  );
}

const sorted = (map: Map<string, string>) =>
  Object.fromEntries([...map].sort(([a], [b]) => (a < b ? -1 : 1)));

/** The only kernels that fuse a multiplication and an addition, all of product.gk. */
const products = ['gemm', 'gemm_batched', 'linear_act', 'linear_backward', 'linear_gradients'];

/** Returns the bodies of a module's entries and functions by their names. */
const bodies = (module: string) =>
  new Map(
    [
      ...module.matchAll(/^(?:\.visible )?\.(?:entry|func)\b[^{;]*?(\w+)\s*\([^{;]*\{(.*?)^\}/gms),
    ].map(([, name = '', body = '']) => [name, body]),
  );

/**
 * Returns the first line of the PTX that fuses operations that its source does not. Products may fuse
 * terms of a sum: both factors come from shared memory. Returns null if there is no such line.
 */
function wronglyFused(module: string): string | null {
  let left = module;
  for (const [name, body] of bodies(module)) {
    left = left.replace(body, '');
    const shared = new Set(
      [...body.matchAll(/^\s*ld\.shared\.f32\s+(%f\d+),/gm)].map(([, register]) => register),
    );
    for (const [line, fused, a = '', b = ''] of body.matchAll(
      /^.*?\b((?:fma|mad)\.\S*f\d\S*)\s+%f\d+, (\S+), (\S+),.*$/gm,
    ))
      if (!(products.includes(name) && fused === 'fma.rn.f32' && shared.has(a) && shared.has(b)))
        return `${name}: ${line.trim()}`;
  }
  return /^.*\b(fma|mad)\.\S*f\d.*$/m.exec(left)?.[0] ?? null;
}

describe('committed kernel images', function () {
  // Oclgrind takes a minute alone, and two next to other tests.
  this.timeout(600_000);
  const folder = mkdtempSync(join(tmpdir(), 'hotslot-images-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  function harness(name: string, libraries: string[]): string {
    const hosts = readdirSync(sources).filter((file) => file.endsWith('.cpp'));
    return buildDriverProgram(
      [`test/kernels/${name}.cpp`, ...hosts.map((file) => `native/kernels/${file}`)],
      libraries,
    );
  }
  /**
   * Builds the harness with an image's kernels as an object file, runs it, and returns its output.
   */
  const executed = (object: string, ...args: string[]) =>
    run(harness('images_harness', [object, '-rdynamic']), ...args);
  const nothingFound = /^\d+ kernels and outputs over inputs compared: 0 failures\n$/;

  /**
   * Skips the test and prints a reason if one of the tools is missing. Otherwise returns the tools.
   */
  function need(context: Mocha.Context, tools: Record<string, string | undefined>): string[] {
    const missing = Object.keys(tools).filter((name) => tools[name] === undefined);
    if (missing.length > 0) skip(context, `${missing.join(' and ')} not installed`);
    return Object.values(tools) as string[];
  }
  function skip(context: Mocha.Context, why: string): never {
    console.log(`      skipped: ${why}`);
    return context.skip();
  }

  it('are built from the present kernel sources', () => {
    const all = lists.flatMap((list) => imagesIn(images, list));
    expect(all.map(({ format }) => format)).to.include.members([
      'ptx',
      'spirv',
      'hsaco:gfx90a',
      'hsaco:gfx1030',
    ]);
    const hash = hashSources();
    for (const { format, sources } of all)
      expect(sources, `${format} is stale: run npm run build:kernels`).to.equal(hash);
  });

  it('have the sizes and hashes of their tables, and are contained in the addon', () => {
    const all = lists.flatMap((list) => imagesIn(images, list));
    const files = [
      ...all.map(({ file }) => file),
      ...lists.map((list) => `${list}.inc`),
      'images.cpp',
    ];
    expect(readdirSync(images).sort()).to.deep.equal(files.sort());
    const addon = readFileSync(join(root, 'build/Release/device.node'));
    for (const { file, bytes, sha256 } of all) {
      expect([image(file).length, sha256Of(image(file))], file).to.deep.equal([
        Number(bytes),
        sha256,
      ]);
      expect(
        addon.includes(Buffer.concat([image(file), Buffer.of(0)])),
        `${file} in the addon`,
      ).to.equal(true);
    }
  });

  itAll('are reproduced byte by byte by the same compilers', function () {
    need(this, {
      cmake: tool('cmake'),
      'clang-14': tool('clang-14'),
      'llvm-spirv-14': tool('llvm-spirv-14'),
    });
    const to = join(folder, 'images');
    mkdirSync(to);
    // ptxas is off, because tests below assemble the PTX.
    const options = [`--CDHOTSLOT_IMAGES=${to}`, '--CDPTXAS=OFF'];
    const build = ['build', '-d', 'native', '-O', join(folder, 'build'), ...options];
    run(process.execPath, join(root, 'node_modules/cmake-js/bin/cmake-js'), ...build);
    const others: string[] = [];
    for (const list of lists) {
      const table = `${list}.inc`;
      if (!existsSync(join(to, table))) {
        others.push(`${list} cannot be made here`);
        continue;
      }
      const [made, committed] = [imagesIn(to, list), imagesIn(images, list)];
      if (made[0]?.compiler === committed[0]?.compiler)
        for (const file of [table, ...made.map((each) => each.file)])
          expect(sha256Of(readFileSync(join(to, file))), `${file}, made here`).to.equal(
            sha256Of(image(file)),
          );
      else
        others.push(`${list} was made by ${committed[0]?.compiler}, here is ${made[0]?.compiler}`);
    }
    if (others.length > 0) skip(this, others.join('; '));
  });

  describe('PTX', () => {
    it('requires at most PTX 7.0 and sm_70, and has every kernel with the parameters of the core', () => {
      const text = ptx();
      expect(Number(/^\.version (\d+\.\d+)$/m.exec(text)?.[1])).to.be.at.most(7.0);
      expect(Number(/^\.target sm_(\d+)$/m.exec(text)?.[1])).to.be.at.most(70);
      const letters: Record<string, string> = { p: 'u64', w: 'u64', r: 'f32' };
      const wanted = new Map(
        [...registry()].map(([k, args]) => [k, [...args].map((a) => letters[a]).join(' ')]),
      );
      const entries = new Map(
        [...text.matchAll(/^\.visible \.entry (\w+)\(([^)]*)\)/gm)].map(([, name, params]) => [
          name as string,
          [...(params as string).matchAll(/\.param \.(\w+) /g)].map(([, type]) => type).join(' '),
        ]),
      );
      expect(sorted(entries)).to.deep.equal(sorted(wanted));
    });

    it('has no approximate or flush-to-zero instruction, and rounds explicitly', () => {
      expect(ptx().match(/^.*\.(approx|full|ftz)\b.*$/m)).to.equal(null);
      // Without .rn, the assembler may fuse instructions.
      expect(ptx().match(/^.*\b(add|sub|mul|div|sqrt)\.f32.*$/m)).to.equal(null);
      expect(ptx()).to.include('sqrt.rn.f32').and.include('div.rn.f32');
    });

    it('fuses only the terms of sums of products', () => {
      expect(wronglyFused(ptx())).to.equal(null);
      const fused = [...bodies(ptx())].filter(([, body]) => body.includes('fma.rn.f32'));
      expect(fused.map(([name]) => name).sort()).to.deep.equal(products);
      // Each of these changes fuses something else.
      const fuse = (body: string) =>
        body.replace(
          /mul\.rn\.f32 (\t%f\d+, %f\d+, %f\d+;)/,
          (_, operands: string) => `fma.rn.f32 ${operands.replace(';', ', %f1;')}`,
        );
      for (const kernel of [
        'axpby',
        'adam',
        'sgd',
        'norm_act',
        'gemm',
        'linear_act',
        'linear_backward',
      ])
        expect(wronglyFused(changed(kernel, fuse)), kernel).to.match(
          new RegExp(`^${kernel}: fma\\.rn\\.f32`),
        );
      const renamed = changed('gemm', (body) => body.replace('.entry gemm(', '.entry other('));
      expect(wronglyFused(renamed)).to.match(/^other: fma\.rn\.f32/);
    });

    it('uses no local memory', () => {
      expect(ptx().match(/^.*\.local\b.*$/m)).to.equal(null);
    });

    /**
     * Compiles the module's kernels, translated to C++, to an object file. With `counted`, they
     * count their instructions.
     */
    function compiled(context: Mocha.Context, module: string, counted = false): string {
      const [compiler] = need(context, { 'a C++ compiler': tool(process.env.CXX ?? 'g++') }) as [
        string,
      ];
      writeFileSync(join(folder, 'translated.cpp'), cppOf(module, counted));
      const how = ['-std=c++17', '-O0', '-w', '-ffp-contract=off', '-fPIC', '-c'];
      run(compiler, ...how, join(folder, 'translated.cpp'), '-o', join(folder, 'translated.o'));
      return join(folder, 'translated.o');
    }
    /** Returns the changed text of one kernel, as a module. */
    function changed(kernel: string, change: (body: string) => string): string {
      const body = new RegExp(`^\\.visible \\.entry ${kernel}\\(.*?^\\}\\n`, 'ms').exec(
        ptx(),
      )?.[0] as string;
      expect(change(body)).to.not.equal(body);
      return change(body);
    }

    itAll(
      'gives the bits of the CPU kernels without a race in random orders of threads and blocks',
      function () {
        const much = setting({ short: 'short', all: 'short', long: 'all' });
        expect(executed(compiled(this, ptx()), much)).to.match(nothingFound);
      },
    );

    /**
     * Instructions of the slowest of 256 threads, per element of its block's 8 rows × 512 columns
     * (column_sums: 2,048 rows). `before` is the count of version 0.3.0, and `fewer` the factor by
     * which it must have fallen.
     */
    const instructions: Record<string, readonly [before: number, fewer: number]> = {
      norm_act: [1.2998, 3],
      norm_act_backward: [6.3049, 10],
      layer_norm: [0.9043, 3],
      layer_norm_backward: [1.2349, 3],
      softmax_rows: [2.2561, 3],
      reduce_rows: [0.4338, 6],
      categorical_loss: [5.3005, 6],
      categorical_mean: [3.7356, 3],
      categorical_mean_backward: [2.2998, 3],
      categorical_project: [70.1704, 10],
      argmax_rows: [1.1362, 3],
      count_non_finite: [0.3215, 3],
      // Before, all threads of its blocks already worked.
      column_sums: [0.0605, 1.8],
    };
    itAll(
      'row kernels execute at most the set fraction of the instructions of version 0.3.0',
      function () {
        const counts = executed(compiled(this, ptx(), true), 'count');
        const now = new Map(
          [...counts.matchAll(/^(\w+) ([\d.]+)$/gm)].map(([, name, count]) => [
            name,
            Number(count),
          ]),
        );
        expect([...now.keys()]).to.deep.equal(Object.keys(instructions));
        for (const [name, [before, fewer]] of Object.entries(instructions))
          expect(
            before / now.get(name)!,
            `${name}: ${now.get(name)}, was ${before}`,
          ).to.be.at.least(fewer);
      },
    );

    const barrier = 'bar.sync \t0;';
    const broken: [
      what: string,
      kernel: string,
      change: (body: string) => string,
      found: RegExp,
    ][] = [
      [
        'without its first barrier',
        'softmax_rows',
        (body) => body.replace(barrier, ''),
        /which thread \d+ of block \d+/,
      ],
      [
        'without its barriers',
        'step_end',
        (body) => body.replaceAll(barrier, ''),
        /which thread \d+ of block \d+/,
      ],
      [
        'without its first barrier',
        'sum_long',
        (body) => body.replace(barrier, ''),
        /which thread \d+ of block \d+/,
      ],
      [
        'without its first barrier',
        'sum_chain',
        (body) => body.replace(barrier, ''),
        /which thread \d+ of block \d+/,
      ],
      [
        'without its last barrier',
        'categorical_target',
        (body) => body.replace(new RegExp(`${barrier}(?![^]*${barrier})`), ''),
        /which thread \d+ of block \d+/,
      ],
      [
        'with a wrong lane in its sum',
        'reduce_rows',
        (body) => body.replaceAll(/(ld\.shared\.f32 \t%f\d+, \[%rd\d+)\+64\]/g, '$1+32]'),
        /pointer 0\[\d+\] is|which thread/,
      ],
      [
        'with one row too many in its last block',
        'reduce_rows',
        (body) =>
          body.replace(/setp\.lt\.s64 (\t%p\d+, %rd\d+, %rd\d+;\n\tselp\.b64)/, 'setp.le.s64 $1'),
        /pointer 0\[\d+\] is/,
      ],
      [
        'with a subtraction in place of its addition',
        'axpby',
        (body) => body.replace('add.rn.f32', 'sub.rn.f32'),
        /pointer 0\[\d+\] is/,
      ],
      [
        'with the last bit of a word in the place of the one before',
        'unpack_bits',
        (body) => body.replace(/(and\.b32 +\t%r\d+, %r\d+, )31;/, '$130;'),
        /pointer 0\[\d+\] is/,
      ],
      [
        'with a barrier that only one thread reaches',
        'adam',
        (body) =>
          body.replace(
            /mov\.u32 \t(%r\d+), %tid\.x;/,
            `$&\nsetp.eq.s32 \t%p1, $1, 0;\n@%p1 ${barrier}`,
          ),
        /same barriers/,
      ],
    ];
    for (const [what, kernel, change, found] of broken)
      itAll(`the harness fails for ${kernel} ${what}`, function () {
        const object = compiled(this, changed(kernel, change));
        // The unchanged kernel passes the test above, so the harness finds the change.
        expect(() => executed(object, 'short', kernel)).to.throw(found);
      });

    /**
     * Returns the PTX of these sources with a change, compiled as the images are. The change must
     * change something, once.
     */
    function changedSources(
      context: Mocha.Context,
      names: readonly string[],
      [from, to]: readonly [string, string],
    ): string {
      const [clang] = need(context, { 'clang-14': tool('clang-14') }) as [string];
      const source = names.map((name) => readFileSync(join(sources, name), 'utf8')).join('');
      expect(source.split(from).length, `${names} have once: ${from}`).to.equal(2);
      const file = join(folder, 'changed.cu');
      writeFileSync(file, `#include "gk.hpp"\n${source.replace(from, () => to)}`);
      const device = ['-x', 'cuda', '--cuda-device-only', '--cuda-gpu-arch=sm_60', '-nocudainc'];
      const isa = ['-nocudalib', '-Wno-unknown-cuda-version', '-Xclang', '-target-feature'];
      run(
        clang,
        ...[...device, ...isa, '-Xclang', '+ptx63', '-O2', '-ffp-contract=off', `-I${sources}`],
        ...['-S', '-o', join(folder, 'changed.ptx'), file],
      );
      return readFileSync(join(folder, 'changed.ptx'), 'utf8');
    }
    const changedProducts = (context: Mocha.Context, change: readonly [string, string]) =>
      changedSources(context, ['functions.gk', 'unary.gk', 'product.gk'], change);
    const steps = ['grad_norm.gk', 'follow_every.gk', 'adam.gk', 'sgd.gk'];
    const counts: [what: string, kernel: string, change: [from: string, to: string]][] = [
      [
        'that advances the counter which its other blocks read',
        'adam',
        [
          'GK_EACH(i, n) GK_ADAM_STEP(i);',
          'GK_EACH(i, n) GK_ADAM_STEP(i);\n  GK_ALONE ((gk_i32*)steps)[0]++;',
        ],
      ],
      [
        'that ignores how many steps are not counted yet',
        'adam',
        ['(gk_u32)steps[0] + (gk_u32)ahead', '(gk_u32)steps[0] + 1u'],
      ],
      [
        'whose target moves at the steps of the counter',
        'adam_follow',
        ['t % (gk_i32)every', 'steps[0] % (gk_i32)every'],
      ],
      [
        'whose target begins at the first parameter',
        'sgd_follow',
        ['const gk_i64 at = i - first;', 'const gk_i64 at = i;'],
      ],
      [
        'whose blocks do not fold the norm',
        'sgd',
        ['gk_fold(lanes, GK_PARTIALS, 1);\n  const float norm', 'const float norm'],
      ],
      [
        'that reads its factors before the barrier',
        'adam',
        ['  GK_BARRIER;\n  const gk_adam all', '  const gk_adam all'],
      ],
    ];
    for (const [what, kernel, change] of counts)
      itAll(`the harness fails for ${kernel} ${what}`, function () {
        const object = compiled(this, changedSources(this, steps, change));
        // A changed counter alone would be a difference of pointer 6.
        expect(() => executed(object, 'short', kernel)).to.throw(
          new RegExp(`FAILED ${kernel} in .*(pointer [0-5]\\[\\d+\\] is|which thread)`),
        );
      });

    const reductions = ['functions.gk', 'rows.gk', 'argmax_rows.gk', 'reduce_rows.gk'];
    const categorical = [...reductions, 'categorical.gk'];
    const losses = ['functions.gk', 'rows.gk', 'argmax_rows.gk', 'td_loss.gk', 'td_target.gk'];
    const ends = ['functions.gk', 'rows.gk', 'column_sums.gk', 'random.gk', 'step_end.gk'];
    const sums = [...ends, 'unary.gk', 'binary.gk', 'chain.gk'];
    const sumChains = [...sums, 'sum_chain.gk'];
    const learners: [
      what: string,
      kernel: string,
      names: readonly string[],
      change: [from: string, to: string],
    ][] = [
      [
        'without the barrier between two tiles',
        'step_end',
        ends,
        [
          'sums[(first + row) % GK_LANES] += lanes[row];\n    GK_BARRIER;',
          'sums[(first + row) % GK_LANES] += lanes[row];',
        ],
      ],
      [
        'without the last rows that do not fill a tile',
        'step_end',
        ends,
        ['first < rows; first += GK_SUM_TILE', 'first + GK_SUM_TILE <= rows; first += GK_SUM_TILE'],
      ],
      [
        'that sums scalars which are not due',
        'step_end',
        ends,
        ['(due >> (sum[1] & 31) & 1) &&', '1 &&'],
      ],
      ['whose counters count steps that are not due', 'step_end', ends, ['due >> g & 1', '1']],
      [
        'that sums one element beyond x',
        'step_end',
        ends,
        ['offset + reach < size', 'offset + reach <= size'],
      ],
      [
        'that reads a report which begins',
        'step_end',
        ends,
        ['beta == 0.0f ? alpha * number :', ''],
      ],
      [
        'whose blocks all advance the generator',
        'step_end',
        ends,
        ['  GK_ALONE gk_advance(state, blocks);\n', '  gk_advance(state, blocks);\n'],
      ],
      [
        'without the barrier between pieces and their sum',
        'sum_long',
        reductions,
        ['    GK_BARRIER;\n    {', '    {'],
      ],
      [
        'that leaves pieces to other blocks',
        'sum_long',
        reductions,
        ['GK_EACH_ROW_HERE(p, n, pieces, piece)', 'GK_EACH_ROW(p, n, pieces, piece)'],
      ],
      [
        'without its factor',
        'sum_long',
        reductions,
        ['out[(i + p) * out_stride] = scale * sum', 'out[(i + p) * out_stride] = sum'],
      ],
      ['without its factor', 'sum_chain', sumChains, ['factor * sum;', 'sum;']],
      [
        'that writes unused outputs',
        'sum_chain',
        sumChains,
        ['outputs > 1) y1', 'outputs > 0) y1'],
      ],
      [
        'that sums rows in place of a column',
        'sum_chain',
        sumChains,
        ['1, 1) {\n    if (kind == GK_SUM_COLUMN)', '1, 1) {\n    if (kind > GK_SUM_ROWS)'],
      ],
      [
        'whose targets do not repeat',
        'td_loss_target',
        losses,
        ['t = gk_repeated(i, target_rows)', 't = i < target_rows ? i : 0'],
      ],
      [
        'with dense discounts',
        'td_loss_target',
        losses,
        ['discounts[t * discount_stride], actions);\n    gk', 'discounts[t], actions);\n    gk'],
      ],
      [
        'with the value of a row whose discount is 0',
        'td_loss_target',
        losses,
        ['discount != 0.0f ? discount * next : 0.0f', 'discount * next'],
      ],
      [
        'with the loss of a row whose weight is 0',
        'td_loss_target',
        losses,
        ['terms[0] = weight != 0.0f ? weight', 'terms[0] = true ? weight'],
      ],
      [
        'without the factor of its cost',
        'categorical_target',
        categorical,
        ['GK_COST(i) * factor[0];\n    const', 'GK_COST(i);\n    const'],
      ],
      [
        'whose softmax is not divided by its sum',
        'categorical_target',
        categorical,
        ['parts[own + k] / sum', 'parts[own + k]'],
      ],
    ];
    for (const [what, kernel, names, change] of learners)
      itAll(`the harness fails for ${kernel} ${what}`, function () {
        const object = compiled(this, changedSources(this, names, change));
        expect(() => executed(object, 'short', kernel)).to.throw(
          new RegExp(`FAILED ${kernel} in .*(pointer \\d\\[\\d+\\] is|which thread)`),
        );
      });

    itAll('the harness passes kernels of learners that are compiled without a change', function () {
      const comments = [
        ['step_end', ends, '// The scalar keeps its number.'],
        ['sum_long', reductions, '// The limit of pieces of a row'],
        ['sum_chain', sumChains, '// Runs a program on one element:'],
        ['td_loss_target', losses, '// Returns the loss of the TD error d.'],
        ['categorical_target', categorical, '// Returns the cost of row i.'],
      ] as const;
      for (const [kernel, names, comment] of comments) {
        const object = compiled(this, changedSources(this, names, [comment, '//']));
        expect(executed(object, 'short', kernel), kernel).to.match(nothingFound);
      }
    });

    const edges: [what: string, kernel: string, change: [from: string, to: string]][] = [
      [
        'without its last row of a tile',
        'linear_act',
        ['gk_one = i < (m) &&', 'gk_one = i < (m) - 1 &&'],
      ],
      [
        'with a row beyond its last one',
        'linear_act',
        ['gk_one = i < (m) &&', 'gk_one = i <= (m) &&'],
      ],
      ['without its last column of a tile', 'gemm', ['j < (n); ', 'j < (n) - 1; ']],
      [
        'with terms beyond its last piece',
        'gemm',
        ['(k - first < GK_PIECE ? k - first : GK_PIECE)', 'GK_PIECE'],
      ],
      [
        'without its last piece',
        'linear_gradients',
        ['first < k; first += GK_PIECE', 'first + GK_PIECE <= k || first == 0; first += GK_PIECE'],
      ],
      [
        'with one chain instead of pieces',
        'gemm_batched',
        ['float piece = 0.0f;', 'float piece = sums[t]; sums[t] = 0.0f;'],
      ],
      [
        'with rounded products',
        'linear_backward',
        [
          'gk_fma(row[s], column[s * GK_RIGHT_PITCH], piece)',
          'row[s] * column[s * GK_RIGHT_PITCH] + piece',
        ],
      ],
      [
        'with the first column of its second place in the first',
        'linear_act',
        ['at >= m.split', 'at > m.split'],
      ],
      [
        'with the first row of its second place in the first',
        'linear_gradients',
        ['i >= -m.split', 'i > -m.split'],
      ],
      [
        'with the stride of its first place for the second',
        'linear_act',
        ['m.second_row : m.row', 'm.row : m.row'],
      ],
      [
        'with rows of its second place counted from the first',
        'linear_gradients',
        ['(below ? i + m.split : i)', 'i'],
      ],
      ['with one bias for all members', 'linear_act', ['bias[p * p_batch + j]', 'bias[j]']],
      [
        'with one output for all members',
        'linear_act',
        [
          'p * y_batch + i * y_stride + j;\n      const float v = sums',
          'i * y_stride + j;\n      const float v = sums',
        ],
      ],
      [
        'with gradients of the last member only',
        'linear_backward',
        ['p > from ? *to + sum : sum', 'sum'],
      ],
      [
        'with x in place of ones',
        'linear_gradients',
        ['return one ? 1.0f : value', 'return value'],
      ],
      [
        'without the barrier before its sums',
        'gemm',
        ['    GK_BARRIER;\n    GK_EACH_SUM', '    GK_EACH_SUM'],
      ],
      ['without the barrier after its sums', 'gemm', ['    GK_BARRIER;\n  }\n}', '  }\n}']],
    ];
    for (const [what, kernel, change] of edges)
      itAll(`the harness fails for ${kernel} ${what}`, function () {
        const object = compiled(this, changedProducts(this, change));
        expect(() => executed(object, 'short', kernel)).to.throw(
          new RegExp(`FAILED ${kernel} in .*(pointer \\d\\[\\d+\\] is|which thread)`),
        );
      });

    itAll('the harness passes products that are compiled without a change', function () {
      const object = compiled(this, changedProducts(this, ['// Neighboring threads', '// They']));
      for (const kernel of products)
        expect(executed(object, 'short', kernel), kernel).to.match(nothingFound);
    });

    it('cppOf() throws UnknownPtx with the text of an unknown instruction or declaration', () => {
      for (const unknown of ['fma.rz.f32', 'fma.rn.ftz.f32', 'fma.rn.f64', 'add.rz.f32']) {
        const module = changed('axpby', (body) => body.replace('add.rn.f32', unknown));
        expect(() => cppOf(module)).to.throw(
          UnknownPtx,
          `an instruction that is not translated: '${unknown} %f`,
        );
      }
      const declared = changed('axpby', (body) => `.global .align 4 .b8 table[4];\n${body}`);
      expect(() => cppOf(declared)).to.throw(
        UnknownPtx,
        /^a declaration that is not translated: '\.global/,
      );
    });

    for (const arch of [75, 80, 90]) {
      itAll(`assembles for sm_${arch}`, function () {
        const toolkits = [process.env.CUDA_PATH, process.env.CUDA_HOME, '/usr/local/cuda'].filter(
          (p) => p !== undefined,
        );
        const [ptxas] = need(this, {
          ptxas: tool('ptxas', ...toolkits.map((path) => join(path, 'bin'))),
        });
        run(
          ptxas as string,
          `-arch=sm_${arch}`,
          '-o',
          join(folder, 'kernels.cubin'),
          join(images, 'kernels.ptx'),
        );
      });
    }
  });

  describe('SPIR-V', () => {
    /** Yields instructions as [opcode, operands…]. */
    function* instructions(words: Uint32Array): Generator<number[]> {
      for (let at = 5; at < words.length; ) {
        const first = words[at] as number;
        if (first >>> 16 === 0) throw new Error(`an instruction without length at word ${at}`);
        yield [first & 0xffff, ...words.subarray(at + 1, at + (first >>> 16))];
        at += first >>> 16;
      }
    }
    const asText = (words: readonly number[]) => {
      const bytes = Buffer.from(Uint32Array.from(words).buffer);
      return bytes.toString('latin1', 0, bytes.indexOf(0));
    };
    const op = {
      name: 5,
      extended: 12,
      entry: 15,
      mode: 16,
      capability: 17,
      int: 21,
      float: 22,
      pointer: 32,
      function: 54,
      parameter: 55,
    };

    it('needs only OpenCL 1.2 capabilities, and has every kernel uncontracted with its parameters, and fma only in products', () => {
      const { buffer, byteOffset, length } = image('kernels.spv');
      const words = new Uint32Array(buffer.slice(byteOffset, byteOffset + length));
      expect(words[0]).to.equal(0x07230203);
      expect(words[1]).to.be.at.most(0x00010200);
      const capabilities = new Set<number>();
      const names = new Map<number, string>();
      const uncontracted: string[] = [];
      const types = new Map<number, string>();
      const kernels = new Map<string, string>();
      const fused = new Set<string>();
      // Number of fma in OpenCL.std, the only set of extended instructions.
      const fma = 26;
      // An entry calls the function that has its name.
      const functions = new Map<number, string>();
      let inside = '';
      let current: string | undefined;
      for (const [code, a = 0, b = 0, c = 0, ...rest] of instructions(words)) {
        if (code === op.capability) capabilities.add(a);
        else if (code === op.entry) names.set(b, asText([c, ...rest]));
        else if (code === op.mode && b === 31) uncontracted.push(names.get(a) ?? String(a));
        else if (code === op.int) types.set(a, b === 64 ? 'w' : '?');
        else if (code === op.float) types.set(a, b === 32 ? 'r' : '?');
        else if (code === op.pointer) types.set(a, b === 5 ? 'p' : '?');
        else if (code === op.name) functions.set(a, asText([b, c, ...rest]));
        else if (code === op.extended && rest[0] === fma) fused.add(inside);
        else if (code === op.function) {
          current = names.get(b);
          inside = current ?? functions.get(b) ?? String(b);
          if (current !== undefined) kernels.set(current, '');
        } else if (code === op.parameter && current !== undefined)
          kernels.set(current, kernels.get(current) + (types.get(a) ?? '?'));
      }
      // Addresses, Linkage, Kernel, Int64, Int16, Int8: OpenCL 1.2 requires them of every device.
      expect([...capabilities].sort((x, y) => x - y)).to.deep.equal([4, 5, 6, 11, 22, 39]);
      expect(sorted(kernels)).to.deep.equal(sorted(registry()));
      expect(uncontracted.sort()).to.deep.equal([...kernels.keys()].sort());
      expect([...fused].sort()).to.deep.equal(products);
    });

    it('is valid for OpenCL 1.2', function () {
      const [validator] = need(this, { 'spirv-val': tool('spirv-val') });
      run(validator as string, '--target-env', 'opencl1.2', join(images, 'kernels.spv'));
    });

    itLong(
      'gives the bits of the CPU kernels without a race when executed on this CPU',
      function () {
        const tools = ['clang-14', 'llvm-spirv-14', 'llvm-dis-14', 'opt-14'];
        const [clang, translate, disassemble, optimize] = need(
          this,
          Object.fromEntries(tools.map((name) => [name, tool(name)])),
        ) as [string, string, string, string];
        const file = (name: string) => join(folder, name);
        run(translate, '-r', '-o', file('executed.bc'), join(images, 'kernels.spv'));
        run(disassemble, '-o', file('executed.ll'), file('executed.bc'));
        // The sanitizer's pass ignores memory of other address spaces, and this CPU has only one.
        const plain = readFileSync(file('executed.ll'), 'utf8')
          .replace(/ addrspace\(\d\)/g, '')
          .replace(/^target .*$/gm, '')
          .replace(/^(attributes #\d+ = \{)/gm, '$1 sanitize_thread');
        writeFileSync(file('plain.ll'), plain);
        const pass = [
          '-passes=function(tsan)',
          '-tsan-instrument-read-before-write',
          '-tsan-instrument-func-entry-exit=0',
        ];
        run(optimize, ...pass, '-o', file('watched.bc'), file('plain.ll'));
        const target = run(clang, '-print-target-triple').trim();
        const toObject = [
          '-target',
          target,
          '-Wno-override-module',
          '-O1',
          '-ffp-contract=off',
          '-fPIC',
          '-c',
        ];
        run(clang, '-x', 'ir', file('watched.bc'), ...toObject, '-o', file('executed.o'));
        expect(executed(file('executed.o'), 'all')).to.match(nothingFound);
      },
    );
  });

  describe('SPIR-V on third-party OpenCL devices', () => {
    const tools = ['llvm-spirv-14', 'llvm-dis-14', 'llvm-as-14'] as const;
    /**
     * Returns a program that runs an image, and the image as LLVM bitcode with its text changed.
     */
    function made(
      context: Mocha.Context,
      change: (text: string) => string = (text) => text,
    ): [string, string] {
      const headers = existsSync('/usr/include/CL/cl.h') ? '' : undefined;
      const found = Object.fromEntries(tools.map((name) => [name, tool(name)]));
      const [translate, disassemble, assemble] = need(context, {
        ...found,
        'opencl-headers': headers,
      }) as [string, string, string];
      const file = (name: string) => join(folder, name);
      run(translate, '-r', '-o', file('opencl.bc'), join(images, 'kernels.spv'));
      run(disassemble, '-o', file('opencl.ll'), file('opencl.bc'));
      const text = readFileSync(file('opencl.ll'), 'utf8');
      writeFileSync(file('opencl.ll'), change(text));
      run(assemble, '-o', file('opencl.bc'), file('opencl.ll'));
      return [harness('opencl_harness', ['-lOpenCL']), file('opencl.bc')];
    }
    const onOclgrind = (context: Mocha.Context, program: string, ...args: string[]) => {
      const [oclgrind] = need(context, { oclgrind: tool('oclgrind') }) as [string];
      const { status, stdout, stderr } = spawnSync(
        oclgrind,
        ['--data-races', '--uninitialized', program, ...args],
        {
          cwd: root,
          encoding: 'utf8',
          maxBuffer: 2 ** 28,
        },
      );
      return { status, text: (stdout + stderr).trim() };
    };
    const passed = (on: string) =>
      new RegExp(`^on ${on}\\n\\d+ kernels and outputs over inputs compared: 0 failures$`);

    itAll(
      'Oclgrind reports no data race and no uninitialized value, and outputs match the CPU',
      function () {
        const [program, image] = made(this);
        const grids = setting({ short: 'quick', all: 'quick', long: 'short' });
        const { status, text } = onOclgrind(this, program, grids, image);
        expect([status, text]).to.deep.equal([0, passed('Oclgrind Simulator').exec(text)?.[0]]);
      },
    );

    itAll('Oclgrind reports a data race when kernels have no barriers', function () {
      const [program, image] = made(this, (text) =>
        text.replaceAll(/^.*call .*@_Z7barrierj\(.*$/gm, ''),
      );
      for (const kernel of [
        'softmax_rows',
        'layer_norm',
        'categorical_project',
        'count_non_finite',
      ])
        expect(onOclgrind(this, program, 'short', image, kernel).text).to.include(
          `data race at local memory address`,
        );
    });

    itAll('PoCL gives the bits of kernels whose branches have barriers', function () {
      const icd = '/etc/OpenCL/vendors/pocl.icd';
      need(this, { pocl: existsSync(icd) ? icd : undefined });
      const [program, image] = made(this);
      for (const kernel of ['step_end', 'sum_chain', 'sgd', 'sgd_follow'])
        expect(run(program, 'short', image, kernel).trim(), kernel).to.match(passed('.*'));
    });

    itLong(
      'PoCL gives the bits of the CPU kernels in groups of 7 to 256',
      function (this: Mocha.Context) {
        const icd = '/etc/OpenCL/vendors/pocl.icd';
        need(this, { pocl: existsSync(icd) ? icd : undefined });
        const [program, image] = made(this);
        expect(run(program, 'all', image).trim()).to.match(passed('.*'));
      },
    );
  });

  it('code objects are 64-bit ELF files for AMD and contain every kernel', () => {
    const names = nativeKernels()
      .kernels()
      .map(({ name }) => name);
    const objects = imagesIn(images, 'hsaco');
    expect(objects.length).to.be.at.least(4);
    for (const { format, file } of objects) {
      const bytes = image(file);
      // A 64-bit ELF file for machine 224, which is AMD's.
      expect([bytes.readUInt32BE(0), bytes[4], bytes.readUInt16LE(18)], format).to.deep.equal([
        0x7f454c46, 2, 224,
      ]);
      for (const name of names)
        expect(bytes.includes(`\0${name}.kd\0`), `${format}: ${name}`).to.equal(true);
    }
  });
});
