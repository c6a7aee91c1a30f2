/**
 * Tests the golden runner as a command. It passes all fixture files, and reports a wrong value at
 * any place of a file.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { run } from './cli/run-command.ts';
import { itAll, setting } from './rig/setting.ts';

const fixture = (name: string): string =>
  fileURLToPath(new URL(`../../test/fixtures/${name}`, import.meta.url));
const golden = (...files: string[]) => run('test/golden.js', files);

type Json = Record<string, unknown>;
const read = (name: string): Json => JSON.parse(readFileSync(fixture(name), 'utf8'));

/** Returns another number, flag or text. */
function wrong(value: unknown): unknown {
  if (typeof value === 'string') return `${value.startsWith('A') ? 'B' : 'A'}${value.slice(1)}`;
  return value === 0 || value === 1 ? 1 - value : (value as number) + 1;
}
function spoil(file: Json, path: string): void {
  const keys = path.split('/');
  const last = keys.pop()!;
  const at = keys.reduce((value, key) => value[key] as Json, file);
  expect(at, path).to.have.property(last);
  at[last] = wrong(at[last]);
}

/** Returns the case of a path: `prioritized/cases/3/…` belongs to prioritized.cases[3]. */
const caseOf = (path: string): string =>
  path.replace(/^prioritized\//, 'prioritized.').replace(/^([\w.]+)\/(\d+)\/.*/, '$1[$2]');

/** A place in a file, and what the line about its case must say if the value there is wrong. */
type Spoiled = readonly [path: string, says: RegExp];

const ofReplay: readonly Spoiled[] = [
  ['prioritized/cases/2/indices/1', /by seed: indices\[1\] is \d+, expected \d+$/],
  ['prioritized/cases/3/probabilities/0', /by seed: probabilities\[0\] is /],
  ['prioritized/cases/5/weights/1/tree/2', /beta 0.4, tree, by seed: weights\[2\] is /],
  ['prioritized/cases/6/weights/2/batch/0', /beta 1, batch, by seed: weights\[0\] is /],
  ['prioritized/cases/7/weights/0/none/7', /beta 0, none, by seed: weights\[7\] is 1, expected 0$/],
  ['prioritized/cases/9/seed', /by seed: indices\[\d+\] is /],
  ['prioritized/cases/13/masses/100', /masses\[100\] is /],
  ['prioritized/boundary/0/lower/3', /index at mass 2 is 1, expected 0$/],
  ['prioritized/boundary/4/leaves/0', /probability at mass|index at mass/],
  ['prioritized/refused/0/leaves/2', /tree, was not refused$/],
  ['nstep/0/lanes/0/k/3', /gamma 0.9: steps of lane 0, row 26 is 1, expected 0$/],
  [
    'nstep/1/lanes/0/return/0.9/0',
    /room for the whole history: gamma 0.9: rewards of lane 0, row 23 is /,
  ],
  ['nstep/5/lanes/1/return/1.0/8', /: gamma 1.0: rewards of lane 1, row 37 is /],
  ['nstep/6/lanes/0/discount/0.99/9', /: gamma 0.99: discounts of lane 0, row \d+ is /],
  ['nstep/7/lanes/1/next/6', /: nextObs of lane 1, row \d+ is /],
  ['nstep/10/lanes/2/terminated/10', /: terminated of lane 2, row \d+ is \d, expected \d$/],
  ['nstep/11/lanes/2/truncated/10', /: truncated of lane 2, row \d+ is \d, expected \d$/],
  ['nstep/12/lanes/3/drawable/shared/2', /lane 3: rows|excluded rows of lane 3/],
  ['nstep/15/lanes/0/excluded/shared/0', /excluded rows of lane 0\[0\] is /],
  [
    'windows/0/rules/0/lanes/0/shared/3',
    /: full: drawable row 3 is 'lane 0, row 29', expected 'lane 0, row 30'$/,
  ],
  ['windows/1/rules/1/lanes/0/shared/0', /: tail: drawable row 0 is /],
  ['windows/2/rules/2/lanes/0/shared/5', /: anchor: drawable row 5 is /],
  ['windows/3/rules/0/contents/0/reward/2', /: full: rewards\[2\] of lane 0, row 26 is /],
  ['windows/4/rules/1/contents/1/obs/0', /: tail: obs\[0\] of lane \d, row \d+ is /],
  [
    'windows/5/rules/2/contents/1/next/5',
    /: anchor: obs\[6\] of lane \d, row \d+ is |file's next\[5\] is /,
  ],
  [
    'windows/6/rules/2/contents/0/learn/1',
    /: anchor: learn\[1\] of lane \d, row \d+ is \d, expected \d$/,
  ],
  ['windows/9/rules/1/contents/2/valid/3', /: tail: .*lane \d, row \d+ is |the file's padding/],
  ['windows/11/rules/0/contents/0/tick/4', /: full: tick\[4\] of lane \d, row \d+ is /],
  ['windows/12/rules/1/contents/1/terminated/0', /: tail: terminated\[0\] of lane \d, row \d+ is /],
  ['windows/13/rules/1/contents/1/truncated/0', /: tail: truncated\[0\] of lane \d, row \d+ is /],
  [
    'stacks/0/lanes/0/obsRepeat/4/0',
    /: pad repeat: obs\[0\] of lane 0, row 28 is 28, expected 29$/,
  ],
  ['stacks/1/lanes/0/obsZero/5/1', /: pad zero: obs\[1\] of lane 0, row \d+ is /],
  ['stacks/2/lanes/1/nextRepeat/6/1', /: pad repeat: nextObs\[1\] of lane 1, row \d+ is /],
  ['stacks/3/lanes/1/nextZero/7/3', /: pad zero: nextObs\[3\] of lane 1, row \d+ is /],
  ['stacks/4/lanes/2/drawable/shared/0', /: pad repeat: drawable row \d+ is /],
  ['her/0/lanes/0/rows/5/reward', /: future, own goals: goalReward\(\) of lane 0, row 28 is /],
  [
    'her/1/lanes/1/rows/4/future/1',
    /: future, goals of its steps: goalReward\(\) of lane 1, row \d+ is /,
  ],
  [
    'her/2/lanes/1/rows/12/final',
    /: final, goals of its steps: goalReward\(\) of lane 1, row \d+ is /,
  ],
  [
    'her/3/lanes/0/rows/9/episode/0',
    /: episode, goals of its steps: goalReward\(\) of lane 0, row \d+ is /,
  ],
  ['her/4/lanes/2/drawable/whole/shared/1', /: episode: drawable row \d+ is /],
  ['her/0/lanes/0/rows/6/done', /: future, own goals: terminated of lane 0, row 29 is /],
  ['her/1/samples/3/goal/0', /samples: goal\[0\] of lane \d, row \d+ is /],
  ['her/2/samples/4/next', /samples: nextObs of lane \d, row \d+ is /],
  ['her/3/samples/5/reward', /samples: goalReward\(\) of lane \d, row \d+ is /],
  ['her/4/lanes/0/drawable/ended/shared/2', /: future: drawable row \d+ is /],
  ['bookkeeping/0/ops/1/leaves/2', /: tree, op 1 \(update\): leaves\[place 4\] is /],
  ['bookkeeping/1/ops/0/maxPriority', /: tree, op 0 \(add\): maxPriority is 1, expected 0$/],
  ['bookkeeping/2/ops/3/cells/2', /: tree, op 3 \(sample\): cells\[2\] is /],
  ['bookkeeping/3/ops/3/weights/none/5', /: none, op 3 \(sample\): weights\[5\] is /],
  [
    'bookkeeping/4/ops/2/stale/1',
    /: tree, op 2 \(update\): whether row 1 is stale is true, expected false$/,
  ],
  ['bookkeeping/5/ops/3/probabilities/1', /: tree, op 3 \(sample\): probabilities\[1\] is /],
  ['bookkeeping/0/ops/2/total', /: tree, op 2 \(add\): total is /],
  ['bookkeeping/3/ops/3/ids/0', /: tree, op 3 \(sample\): ids\[0\] is /],
  ['bookkeeping/5/ops/1/priorities/4', /: tree, op 1 \(update\): leaves\[place 4\] is /],
];
const ofLearners: readonly Spoiled[] = [
  ['cases/0/outputs/grad_weight/data/3', /linear.p\): grad_weight\[3\] is /],
  ['cases/1/outputs/grad_x/data/5', /layer_norm.p\): grad_x\[5\] is /],
  ['cases/7/inputs/x/data/0', /gelu_exact.p\): output\[0\] is /],
  ['cases/9/outputs/output/data/1', /log_softmax.p\): output\[1\] is /],
  ['cases/11/outputs/output', /mse.p\): output\[0\] is /],
  ['cases/15/outputs/log_prob/data/2', /unilab_fast_sac.p\): log_prob\[2\] is /],
  ['cases/18/outputs/grad_log_std_raw/data/1', /softplus_clamp.p\): grad_log_std_raw\[1\] is /],
  ['cases/22/outputs/log_std/data/0', /sb3_sac.far.p\): log_std\[0\] is /],
  ['cases/25/outputs/support/data/2', /c51.exact_step.p\): support\[2\] is /],
  ['cases/26/outputs/projected/data/7', /c51.inexact_step.p\): projected\[7\] is /],
  ['cases/29/outputs/exp_avg_sq_3/data/0', /adamw_fast_sac.p\): exp_avg_sq_3\[0\] is /],
  ['cases/33/outputs/target_4/data/1', /polyak_0.125.p\): target_4\[1\] is /],
  ['cases/34/outputs/total_norm', /clip_norm_1.p\): total_norm\[0\] is /],
  ['cases/36/outputs/var_1/data/0', /empirical_normalization.p\): var_1\[0\] is /],
  ['cases/37/outputs/probe_0/data/1', /running_mean_std.p\): probe_0\[1\] is /],
  ['cases/38/steps/2/expect/params/q_target/4', /: step 2: q_target after the update\[4\] is /],
  [
    'cases/39/steps/0/expect/events/0/grad_norm_after_clip',
    /: step 0: q: grad_norm_after_clip\[0\] is /,
  ],
  ['cases/40/steps/2/expect/events/1/grads/actor/3', /: step 2: actor.0: grads\[\d+\] is /],
  ['cases/41/steps/0/expect/events/4/loss', /: step 0: alpha.1: loss\[0\] is /],
  ['cases/42/steps/1/expect/scalars/alpha', /: step 1: alpha\[0\] is /],
  ['cases/43/steps/2/expect/scalars/norm_count', /: step 2: norm_count\[0\] is 24, expected 25$/],
];
const ofOthers: Readonly<Record<string, readonly Spoiled[]>> = {
  'learners_torch.json': ofLearners,
  'expressions_torch.json': [
    ['cases/0/expected/values/v0/data/2', /abs_0.p\): v0 in float64\[2\] is /],
    ['cases/41/expected/gradients/x/data/1', /: the gradient of x in float64\[1\] is /],
    ['cases/100/inputs/x/data/0', /: v0 in float64\[\d\] is /],
    ['cases/201/expected/values/loss/data/0', /masked_double_dqn.p\): loss in float64\[0\] is /],
    ['cases/229/expected/gradients/y/data/0', /: the gradient of y in float64\[0\] is /],
  ],
  'traced_updates_torch.json': [
    ['cases/0/steps/0/batch/rewards/data/0', /masked_double_dqn.p\): step 0: q: loss\[0\] is /],
    ['cases/1/steps/2/expect/params/q_target/4', /: step 2: q_target after the update\[4\] is /],
    ['cases/2/steps/1/expect/events/0/grads/q/7', /: step 1: q: grads\[7\] is /],
    ['cases/3/steps/0/noise/taus/data/1', /iqn.p\): step 0: q: loss\[0\] is /],
    ['cases/4/steps/1/expect/events/2/loss', /: step 1: alpha: loss\[0\] is /],
    ['cases/5/steps/0/expect/events/1/grad_norm', /: step 0: q: grad_norm\[0\] is /],
    ['cases/6/steps/2/expect/events/3/grads/q2/3', /: step 2: q2: grads\[3\] is /],
    ['cases/7/config/cql_alpha', /: step 0: q: loss\[0\] is /],
    ['cases/8/steps/0/expect/params/log_alpha/0', /: log_alpha after the update\[0\] is /],
  ],
  'sample_torch.json': [
    ['cases/0/head/3', /: head\[3\] is 2079, expected 2080$/],
    ['cases/1/indicesSha256', /: indicesSha256 is '74e3b/],
    ['cases/2/packedSha256', /: packedSha256 is 'a30f4/],
  ],
  'halo_ndsl.json': [
    ['cases/0/packBuffer', /: on cpu, packed: element 0 is /],
    ['cases/55/after/1', /: on cpu, component 1 after: element 0 is /],
    ['cases/50/before/0', /: on cpu, .* element \d+ is /],
  ],
};

/**
 * Splits the places into as few lists as possible, with at most one place of each case in a list. A
 * run only reports the first difference of a case.
 */
function rounds(all: readonly Spoiled[]): Spoiled[][] {
  const lists: Spoiled[][] = [];
  for (const each of all) {
    const free = lists.find((list) => list.every(([path]) => caseOf(path) !== caseOf(each[0])));
    if (free) free.push(each);
    else lists.push([each]);
  }
  return lists;
}

describe('golden runner', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'hotslot-golden-'));
  });
  after(() => rmSync(folder, { recursive: true }));
  const write = (name: string, content: unknown): string => {
    const path = join(folder, name);
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
    return path;
  };

  it('passes every case of the six fixture files', async () => {
    const names = [
      'replay_reference.json',
      'sample_torch.json',
      'halo_ndsl.json',
      'learners_torch.json',
      'expressions_torch.json',
      'traced_updates_torch.json',
    ];
    const ran = await golden(...names.map(fixture));
    expect(ran.lines, ran.stderr).to.deep.equal(['511 cases, 0 failed']);
    expect(ran.code).to.equal(0);
  });

  for (const [name, all] of Object.entries({ 'replay_reference.json': ofReplay, ...ofOthers })) {
    // Only the longest runs try the lists after the first two.
    const lists = rounds(all).slice(0, setting({ short: 2, all: 2, long: all.length }));
    const places = `${lists.flat().length} of ${all.length}`;
    itAll(
      `reports every wrong value of ${name} with its case and first difference: ${places}`,
      async () => {
        for (const round of lists) {
          const file = read(name);
          for (const [path] of round) spoil(file, path);
          const path = write(name, file);
          const { lines, code } = await golden(path);
          expect(lines.pop()).to.match(new RegExp(`^\\d+ cases, ${round.length} failed$`));
          for (const [place, says] of round) {
            const [line, ...more] = lines.filter((each) =>
              each.startsWith(`${path}: ${caseOf(place)} (`),
            );
            expect(more, place).to.deep.equal([]);
            expect(line, `${place}: ${line}`).to.match(says);
          }
          expect(lines).to.have.length(round.length);
          expect(code).to.equal(1);
        }
      },
    );
  }

  itAll(
    'fails for learner cases that lack inputs, steps, config values or expected values',
    async () => {
      type Golden = Json & { steps: Json[]; inputs: Json };
      const { cases } = read('learners_torch.json') as { cases: Golden[] };
      const made: [number, (golden: Golden) => void, RegExp][] = [
        [32, ({ inputs }) => delete inputs.source_0, /the file lacks source_0$/],
        [36, (golden) => (golden.inputs = { probe: golden.inputs.probe }), /no batch_0$/],
        [38, (golden) => (golden.steps = []), /the file has no steps$/],
        [
          40,
          ({ steps }) => ((steps[0]!.expect as Json).events = []),
          /do not move every so many steps$/,
        ],
        [
          41,
          ({ steps }) => ((steps[2]!.expect as Json).params = {}),
          /: step 2: the file does not say what actor is/,
        ],
        [42, (golden) => delete (golden.config as Json).tau, /the file's config lacks 'tau'$/],
      ];
      const spoiled = made.map(([i, change]) => {
        const golden = structuredClone(cases[i]!);
        change(golden);
        return golden;
      });
      const { lines, code } = await golden(write('left-out.json', { cases: spoiled }));
      for (const [i, [, , says]] of made.entries()) expect(lines[i]).to.match(says);
      expect([lines.at(-1), code]).to.deep.equal([
        `${made.length} cases, ${made.length} failed`,
        1,
      ]);
    },
  );

  itAll('checks only the kinds that --kinds names, and counts the others', async () => {
    const { cases } = read('learners_torch.json') as { cases: Json[] };
    const path = write('kinds.json', { cases: [...cases.slice(0, 3), { kind: 'riddle' }] });
    const ran = await golden('--kinds', 'layer,polyak', path);
    expect(ran.lines).to.deep.equal([
      `${path}: kind 'riddle' is left out, 1 not checked`,
      '3 cases, 0 failed',
    ]);
    expect(ran.code).to.equal(0);
    const none = await golden('--kinds', 'expr', path);
    expect(none.lines.at(-1)).to.equal('0 cases, 0 failed');
    expect(none.code).to.equal(0);
  });

  itAll('reports unknown kinds, checks the other cases and exits with code 1', async () => {
    const { prioritized } = read('replay_reference.json') as { prioritized: Json };
    const file = {
      prioritized: { refused: prioritized.refused, halved: [{}, {}] },
      riddles: [{}],
      set: 'any',
    };
    const path = write('unknown.json', file);
    const named = write('named.json', {
      cases: [{ kind: 'riddle' }, { seed: 1 }, { kind: 'riddle' }],
    });
    const ran = await golden(path, named);
    expect(ran.lines).to.deep.equal([
      `${path}: unknown kind 'prioritized.halved', 2 not checked`,
      `${path}: unknown kind 'riddles', 1 not checked`,
      `${named}: unknown kind 'riddle', 2 not checked`,
      `${named}: unknown kind 'cases without a kind', 1 not checked`,
      '2 cases, 0 failed',
    ]);
    expect(ran.code).to.equal(1);
  });

  itAll(
    'fails for invalid files, without arguments, and for a case with a missing history',
    async () => {
      const strange = [
        write('none.json', {}),
        write('list.json', []),
        write('cut.json', '{"nstep": ['),
        join(folder, 'x'),
      ];
      const ran = await golden(...strange);
      expect(
        ran.lines.slice(0, -1).map((line, i) => line.startsWith(`${strange[i]}: `)),
      ).to.deep.equal(strange.map(() => true));
      expect([ran.lines.at(-1), ran.code]).to.deep.equal(['0 cases, 0 failed', 1]);
      expect(await golden()).to.include({ code: 1 });

      const lost = write('lost.json', { nstep: [{ history: 'gone', n: 1 }], her: [null] });
      const { lines, code } = await golden(lost);
      expect(lines[0]).to.equal(`${lost}: nstep[0] (gone, n 1): the file has no history 'gone'`);
      expect(lines[1]).to.match(/her\[0\] \(without a name\): TypeError/);
      expect([lines[2], code]).to.deep.equal(['2 cases, 2 failed', 1]);
    },
  );
});
