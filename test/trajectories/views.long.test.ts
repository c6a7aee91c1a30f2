/**
 * Tests every view of random histories against lists of episodes. Lanes have different lengths,
 * rings wrap, episodes end in every way or are abandoned, and the buffer is cleared. Some views
 * compare often, and others rarely enough to be lapped.
 */
import { expect } from 'chai';
import { TrajectoryBuffer } from '../../src/index.ts';
import { itLonger, setting } from '../rig/setting.ts';
import {
  drawableIds,
  placesNeeded,
  type Rule,
  rule,
  ruleName,
  sameSample,
  sampleOf,
} from './expected.ts';
import { History } from './history.ts';
import { Look, PriorityLook } from './looks.ts';

const transitions: Partial<Rule>[] = [
  {},
  { n: 2, gamma: 0.5 },
  { n: 3, stack: { obs: 4 } },
  { n: 4, stack: { frame: 3, obs: 2 }, pad: 'zero', gamma: 1 },
  { n: 5, gamma: 0 },
  { n: 6, stack: { frame: 1 } },
  { strategy: 'future' },
  { n: 3, strategy: 'future', ratio: 1, stack: { obs: 3 } },
  { n: 2, strategy: 'final', ratio: 0.5, stack: { frame: 2 }, pad: 'zero' },
  { n: 2, strategy: 'episode', ratio: 0.9 },
  { strategy: 'episode', ratio: 0, stack: { obs: 2 } },
];
const windows: Partial<Rule>[] = (['full', 'tail', 'anchor'] as const).flatMap((edges) =>
  [
    { length: 1 },
    { length: 4 },
    { length: 3, burnIn: 2 },
    { length: 1, burnIn: 4, stack: { obs: 3 } },
    { length: 2, burnIn: 1, stack: { frame: 2, goal: 3 }, pad: 'zero' as const },
  ].map((each) => ({ kind: 'windows', edges, ...each }) as const),
);
const rules = [...transitions, ...windows].map(rule);
const differing = (each: Rule): Partial<Rule> => [...transitions, ...windows][rules.indexOf(each)]!;

/** Returns views, each with the mean number of adds between its comparisons. */
function looksOf(history: History, attached: History['buffer']): { look: Look; every: number }[] {
  const { dice, perLane } = history;
  const fitting = rules.filter((each) => placesNeeded(each) <= perLane);
  const looks = Array.from({ length: 5 }, (_, i) => {
    const [buffer, what] = dice.chance(0.5)
      ? [history.buffer, `view ${i}`]
      : [attached, `view ${i}, attached`];
    return {
      look: new Look(history, dice.of(fitting), buffer, what),
      every: dice.of([1, 7, 3 * perLane, 200]),
    };
  });
  for (const [buffer, what] of [
    [history.buffer, 'a sampler'],
    [attached, 'a sampler, attached'],
  ] as const)
    looks.push({
      look: new PriorityLook(history, dice.of(fitting), buffer, what),
      every: dice.of([1, 5, 100]),
    });
  return looks;
}

function play(seed: number): void {
  const shape = new History(seed, 1, 2).dice;
  const history = new History(seed, 1 + shape.below(5), shape.of([2, 3, 5, 8, 13, 24, 40]));
  const { dice } = history;
  const attached = TrajectoryBuffer.attach(history.buffer.share());
  const adds = Math.min(400, history.perLane * history.lanes * 4);
  const looks: { look: Look; every: number }[] = [];
  if (dice.chance(0.5)) looks.push(...looksOf(history, attached));
  for (let i = 0; i < adds; i++) {
    history.add();
    if (dice.chance(0.02)) history.abandon();
    if (dice.chance(0.01)) history.clear();
    // Views that are created late see a ring that has wrapped.
    if (looks.length === 0 && i > adds / 2) looks.push(...looksOf(history, attached));
    for (const { look, every } of looks) {
      if (look instanceof PriorityLook && dice.chance(0.3)) look.update();
      if (dice.chance(1 / every)) look.look();
    }
  }
  for (const { look } of looks) {
    look.look();
    look.refuses(30);
  }
  const steps = history.steps();
  expect([history.buffer.size, history.buffer.ptr], 'size and ptr').to.deep.equal([
    steps.length,
    history.written,
  ]);
  attached.close();
  history.close();
}

describe('trajectory views', function () {
  this.timeout(setting({ short: 120_000, all: 600_000, long: 3_600_000 }));

  const seeds = setting({ short: 4, all: 24, long: 20_000 });
  for (let first = 0; first < seeds; first += seeds / 4)
    itLonger(
      `match lists of episodes in random histories ${first} to ${first + seeds / 4 - 1}`,
      () => {
        for (let seed = first; seed < first + seeds / 4; seed++) {
          try {
            play(seed);
          } catch (error) {
            (error as Error).message = `history ${seed}: ${(error as Error).message}`;
            throw error;
          }
        }
      },
    );

  for (const each of rules)
    it(`match lists of episodes with one rule: ${ruleName(differing(each))}`, () => {
      for (const ending of [0.05, 0.4]) {
        const history = new History(1000, 3, placesNeeded(each) + 9, ending);
        const look = new Look(history, each, history.buffer, `ending ${ending}`);
        let found = 0;
        for (let i = 0; i < 120; i++) {
          history.add();
          if (i % 40 === 39) history.abandon();
          if (i % 11 === 0) look.look();
          found += drawableIds(history, each).length;
        }
        look.refuses();
        expect(found, 'drawable steps over all rounds').to.be.greaterThan(0);
        history.close();
      }
    });

  it('return an empty sample without ids, and one row for each repeat of an id', () => {
    const history = new History(5, 2, 16, 0.2);
    for (let i = 0; i < 60; i++) history.add();
    for (const each of rules) {
      if (placesNeeded(each) > history.perLane) continue;
      const { view } = new Look(history, each, history.buffer, '');
      sameSample(
        'none',
        history.buffer.transitionsAt({ view, ids: [] }),
        sampleOf(history, each, []),
      );
      const id = drawableIds(history, each)[0];
      if (id === undefined) continue;
      const ids = new Array<number>(100).fill(id);
      sameSample(
        'often',
        history.buffer.transitionsAt({ view, ids }),
        sampleOf(history, each, ids),
      );
    }
    history.close();
  });

  it('return the expected rows for 6,000 ids', () => {
    const history = new History(6, 4, 60, 0.1);
    for (let i = 0; i < 1500; i++) history.add();
    for (const each of [
      rules[2]!,
      rule({ kind: 'windows', edges: 'anchor', length: 9, burnIn: 5, stack: { goal: 3 } }),
    ]) {
      const { view } = new Look(history, each, history.buffer, '');
      const ids = drawableIds(history, each);
      const many = Array.from({ length: 6000 }, () => history.dice.of(ids));
      sameSample(
        ruleName(each),
        history.buffer.transitionsAt({ view, ids: many }),
        sampleOf(history, each, many),
      );
    }
    history.close();
  });
});
