/**
 * Breaks masks of legal actions on purpose: in learners, policies and models. The tests of masks must
 * find each mutation.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { describeAll } from '../rig/setting.ts';

const compiled = fileURLToPath(new URL('../../', import.meta.url));
const mocha = join(dirname(createRequire(import.meta.url).resolve('mocha')), 'bin/mocha.js');

/**
 * Module in src/learn, the text that is replaced, the replacement, what it breaks, and the tests that
 * find it: a file in test, and a part of their titles.
 */
type Mutation = readonly [
  file: string,
  from: string,
  to: string,
  what: string,
  tests: string,
  title: string,
];

const [dqn, others, policies, traces, models] = [
  'learner/masked-dqn',
  'learner/masked-learners',
  'learner/masked-policy',
  'learner/traced/masks',
  'formats/onnx',
];

const mutations: readonly Mutation[] = [
  [
    'dqn/heads',
    'where(legal, values, Number.NEGATIVE_INFINITY)',
    'values.add(legal.ne(0).sub(1).mul(1e9))',
    'selection: it adds −1e9',
    dqn,
    'scalar, double true',
  ],
  [
    'dqn/heads',
    'where(legal, values, Number.NEGATIVE_INFINITY)',
    'values.mul(legal.ne(0))',
    'selection: it multiplies by 0',
    others,
    'QrDqnLearner agrees',
  ],
  [
    'dqn/heads',
    'among(legal, choice)',
    'choice',
    'the choice of a scalar head',
    dqn,
    'scalar, double true',
  ],
  [
    'dqn/heads',
    'among(legal, values.reshape([rows, actions]))',
    'values.reshape([rows, actions])',
    'the choice of a categorical head',
    dqn,
    'categorical, double false',
  ],
  [
    'dqn/heads',
    'const shown = where(legal.reshape([rows, actions, 1]), advantages, 0)',
    'const shown = advantages',
    'the mean of a dueling head, which adds all actions',
    dqn,
    'dueling, double true',
  ],
  [
    'dqn/heads',
    'legal.ne(0).sum({ axis: 1 }).max(1)',
    'legal.ne(0).mul(0).add(1).sum({ axis: 1 })',
    'the mean of a dueling head, which divides by all actions',
    dqn,
    'dueling, double true',
  ],
  [
    'dqn/heads',
    'legal.ne(0).sum(',
    'legal.sum(',
    'the number of legal actions, which adds bytes',
    dqn,
    'bits and bytes',
  ],
  [
    'dqn/dqn',
    'combined(target(nextObs), legal)',
    'combined(target(nextObs), batch.actionMask)',
    "the target network's mask, which is that of the current state",
    dqn,
    'dueling and categorical, double true',
  ],
  [
    'dqn/dqn',
    'combined(online(nextObs), legal)',
    'combined(online(nextObs), batch.actionMask)',
    "the online network's mask of the next state",
    dqn,
    'dueling and categorical, double true',
  ],
  [
    'dqn/dqn',
    'combined(online(obs), dueling ? batch.actionMask : undefined)',
    'combined(online(obs), legal)',
    "the current state's mask, which is that of the next state",
    dqn,
    'dueling, double true',
  ],
  [
    'dqn/dqn',
    'const legal = actionMask ? batch.nextActionMask',
    'const legal = actionMask ? (dueling ? batch.actionMask : batch.nextActionMask)',
    'the mask of the targets, which is that of the current state',
    dqn,
    'dueling, double true',
  ],
  ['dqn/dqn', 'refuseMasks(', '(() => {})(', 'the check of batches', dqn, 'refused'],
  [
    'masks',
    'rows > 1 ? mask.strides[0]',
    'rows > 1 ? maskWords(n)',
    'the distance of rows of bits',
    dqn,
    'scalar, double true',
  ],
  [
    'learners/discrete-sac',
    'among(later, actor(nextObs))',
    'among(now, actor(nextObs))',
    "discrete SAC's mask of the next state",
    others,
    'NaN values, target entropy undefined',
  ],
  [
    'learners/discrete-sac',
    'among(now, actor(obs))',
    'actor(obs)',
    "discrete SAC's mask of the current state",
    others,
    'NaN values, target entropy undefined',
  ],
  [
    'learners/discrete-sac',
    'now && options.targetEntropy === undefined',
    'false',
    "discrete SAC's default of the target entropy",
    others,
    'NaN values, target entropy undefined',
  ],
  [
    'learners/discrete-sac',
    'now && options.targetEntropy === undefined',
    'now',
    "discrete SAC's given target entropy",
    others,
    'NaN values, target entropy 0.7',
  ],
  [
    'learners/qr-dqn',
    'among(legal, next.mean({ axis: 2 }))',
    'next.mean({ axis: 2 })',
    'the choice of QR-DQN',
    others,
    'QrDqnLearner agrees',
  ],
  [
    'trace/fused',
    'discount !== 0 || !Number.isNaN(given) ? given',
    'true ? given',
    'NaN of a final state in the interpreter',
    traces,
    'interpreter',
  ],
  [
    'trace/check-gradients',
    "dtype === 'bool' || isCondition(node, nodes)",
    "dtype === 'bool'",
    'the masks that checkGradients() draws',
    others,
    'draws',
  ],
  ['policy', 'if (mask[at] === 0)', 'if (false)', 'the values of a policy', policies, 'values'],
  ['policy', 'Math.max(best, 0)', 'best', 'a row without a legal action', policies, 'DqnPolicy'],
  ['policy', 'best < 0 ||', '', "a policy's first legal action", policies, 'DqnPolicy'],
  [
    'network/heads',
    'mask[row * actions + a - 1] === 0',
    'mask[row * actions + a - 1] === 7',
    "the mean of a policy's dueling layer",
    policies,
    'dueling',
  ],
  [
    'onnx/layers',
    "graph.node('Where', [legal, advantages, number('zero', 0)])",
    'advantages',
    "the mean of a model's dueling layer",
    models,
    'mask: dueling',
  ],
  [
    'onnx/onnx',
    "graph.node('Where', [mask, outputs, never], {}, ['values'])",
    "graph.node('Identity', [outputs], {}, ['values'])",
    'the values of a model',
    models,
    'mask: dqn',
  ],
];

describeAll('mutations of masks', function () {
  this.timeout(300_000);
  let folder = '';
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'hotslot-mutation-'));
  });
  after(() => rmSync(folder, { recursive: true }));

  /** Runs tests with a changed module. Returns the numbers of those that pass and that fail. */
  function run([module, from, to, , tests, title]: Mutation): { passes: number; failures: number } {
    const path = join(compiled, 'src/learn', `${module}.js`);
    const source = readFileSync(path, 'utf8');
    const count = source.split(from).length - 1;
    expect(count, `'${from}' occurs once in ${module}`).to.equal(1);
    const hooks = `export async function load(url, context, next) {
      if (url !== ${JSON.stringify(pathToFileURL(path).href)}) return next(url, context);
      const source = ${JSON.stringify(source.replace(from, () => to))};
      return { format: 'module', source, shortCircuit: true };
    }`;
    // A top-level await makes mocha import this file, so that the hooks apply to what it imports.
    const wrapper = join(folder, 'wrapper.mjs');
    const file = join(compiled, 'test', `${tests}.test.js`);
    writeFileSync(
      wrapper,
      `import { register } from 'node:module';
      register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));
      await import(${JSON.stringify(pathToFileURL(file).href)});`,
    );
    const args = [mocha, '--no-config', '--timeout', '100000', '--reporter', 'json'];
    const { stdout, stderr } = spawnSync(process.execPath, [...args, wrapper, '--fgrep', title], {
      encoding: 'utf8',
    });
    expect(stdout, stderr).to.include('"stats"');
    return JSON.parse(stdout.slice(stdout.indexOf('{'))).stats;
  }

  for (const mutation of mutations)
    it(`tests find a mutation of ${mutation[3]}`, () => {
      expect(run(mutation).failures).to.be.greaterThan(0);
    });

  it('tests find nothing in the code as it is', () => {
    for (const [file, from, , what, tests, title] of mutations.filter(
      (each, i) =>
        mutations.findIndex((other) => other[4] === each[4] && other[5] === each[5]) === i,
    )) {
      const { passes, failures } = run([file, from, from, what, tests, title]);
      expect(passes, what).to.be.greaterThan(0);
      expect(failures, what).to.equal(0);
    }
  });
});
