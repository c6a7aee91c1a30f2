/**
 * Breaks the phases of learners on purpose: their program, plan and update. Random learners must find
 * each mutation.
 */
import { expect } from 'chai';
import type { Mutated } from '../../expressions/mutated.ts';
import { differencesOf } from '../../expressions/run-mutated.ts';
import { describeAll } from '../../rig/setting.ts';

/**
 * Module in src/learn/trace, the text that is replaced, the replacement, what it breaks, and the first
 * random learner that runs, default 0. After a change of drawn(), search these learners again.
 */
type Mutation = readonly [file: string, from: string, to: string, what: string, seed?: number];

const mutations: readonly Mutation[] = [
  ['plan/merge', 'changes?.has(memory)', 'false', 'the versions of memory', 3],
  ['plan/merge', '!optional && ', '', 'sections that are left out', 248],
  ['plan/merge', 'later % earlier === 0', 'true', 'sections that run more rarely', 14],
  [
    'learner/sections',
    'gcd(periods.get(node) ?? 0, checked[p].every)',
    'checked[p].every',
    'the period of shared ops',
    177,
  ],
  [
    'learner/sections',
    'all.length > 1 || periods.has(node)',
    'false',
    'the period of the ops of losses',
    27,
  ],
  ['learner/sections', 'changes.slice(computed, phase)', '[]', 'the check of stale gradients', 49],
  ['learner/sections', 'offset += size;', '', 'the places of gradients', 4],
  ['learner/program', 'holder.offset = size;', 'holder.offset = 0;', 'the places of parameters', 2],
  [
    'learner/sections',
    '= scalars.indexOf(name)',
    '= 0 * scalars.indexOf(name)',
    'the places of scalars',
  ],
  [
    'learner/sections',
    'changes: changes[p], every',
    'every',
    'the memory that changes after a phase',
    3,
  ],
  ['learner/update', 'count % every !== 0', 'false', 'periods in whole cycles'],
  [
    'learner/update',
    '{ word: this.#updates, every }',
    '{ word: this.#updates, every: 1 }',
    'guards',
  ],
  [
    'learner/update',
    'this.#updates ? [{ counter: 0, every: 1 }] : []',
    '[]',
    'the count of minibatches',
  ],
  ['learner/update', 'ahead: before + 1', 'ahead: 1', 'steps that are not counted yet'],
  ['learner/update', 'steps.set(stepper, before + 1)', 'void 0', 'the number of such steps'],
  ['learner/update', 'times > 1', 'false', 'schedules that read the count within an update'],
  ['learner/update', 'follow?.phase === p', 'follow', 'the step that moves a follower', 78],
  ['learner/update', 'this.#step.due |= ', 'void ', 'the groups that are due'],
  ['learner/program', "kind === 'copied' && !ends", 'false', 'followers of several phases', 1118],
  [
    'learner/update',
    'delayed ? -1 : program.priorities',
    'program.priorities',
    'priorities of delayed phases',
    44,
  ],
  ['learner/program', 'if (readLater)', 'if (false)', 'followers that later launches read', 12],
  ['learner/program', 'always || withSteps', 'true', 'followers of other steps', 14],
  [
    'learner/program',
    'slice(0, place).reduce((sum, each) => sum + each.size, 0)',
    'length * 0',
    'the parameters that a follower follows',
    4,
  ],
  ['learner/step-end', 'this.#periods.indexOf(every)] += 1', '0] += 1', 'what the counters add'],
  ['learner/step-end', 'this.#program.sections[section].every ?? 1', '1', 'the group of a sum'],
  ['learner/step-end', 'due, blocks, memory.size', 'due, 0, memory.size', 'the draws of a step'],
  ['learner/update', 'phase?.every ?? every', 'every', 'followers of a delayed phase', 3],
  [
    'learner/update',
    "follower.kind === 'copied' ? steps : this.#updates",
    'this.#updates ?? steps',
    'the steps that copies count',
    3,
  ],
  ['learner/update', 'wholes: [size, every]', 'wholes: [size, 1]', 'the period of a follower', 6],
  [
    'learner/update',
    'this.plan.emitSection(stream, section, { draws })',
    'void draws',
    'the section of priorities',
    2,
  ],
  ['learner/update', 'outputs[this.#program.priorities]', 'outputs[0]', 'priorities', 2],
  ['learner/update', 'if (!computed)', 'if (computed)', 'the sections of losses'],
  ['plan/late-sums', '!sections[section].records', 'false', 'sums that other launches read', 30],
  ['learner/step-end', 'first ? 0 : 1', '0', 'the means of scalars'],
  ['plan/plan', 'launch.section < section', 'launch.section <= section', 'the starts of sections'],
  ['plan/results', '&& alone(into)', '', 'results that other sections compute'],
  ['plan/draws', 'given.get(each)', 'undefined', 'given random numbers', 2],
  ['plan/lowering', '&& this.merged.serves(known.section, this.#section)', '', 'shared copies', 63],
  [
    'plan/lowering',
    "if (node.op !== 'memory' && memoryOf(node))",
    'if (false)',
    'views of memory in later sections',
    16,
  ],
  [
    '../../device/guarded',
    'word.byteOffset, every)',
    'word.byteOffset, 1)',
    'the guard of a launch',
  ],
];

describeAll('mutations of the phases of learners', function () {
  this.timeout(180_000);
  let lines: string[] = [];
  before(async () => {
    const list = mutations.map(
      ([file, from, to, , seed = 0]): Mutated => [file, from, to, `${seed} learners`],
    );
    const same = 'offset += size;';
    list.push(['learner/sections', same, same, '0 learners']);
    lines = await differencesOf(list);
  });

  for (const [i, [, , , what]] of mutations.entries())
    it(`random learners find a mutation of ${what}`, () => {
      expect(lines[i]).to.not.equal('');
    });

  it('random learners find nothing in the code as it is', () => {
    expect(lines.at(-1)).to.equal('');
  });
});
