/** Pins the number of launches of learners, so that a change of the planner shows what it costs. */
import { expect } from 'chai';
import type { DescribedLearner } from '../../../src/entries/trace.ts';
import { Rig, tracedSac, tracedTd3 } from './rig.ts';

describe('launches of traced learners', () => {
  let rig: Rig;
  beforeEach(() => {
    rig = new Rig();
  });
  afterEach(() => rig.close());

  /** Returns the number of launches, and the ops of the copies and chains among them. */
  const planned = (made: DescribedLearner) => {
    const { plan } = rig.keep(made);
    const rows = String(plan)
      .split('\n')
      .slice(3)
      .map((line) => line.split(/ {2,}/));
    const opsOf = (of: RegExp) => rows.filter((row) => of.test(row[1]!)).map((row) => row[2]);
    return { launches: plan.launches, copies: opsOf(/^copy/), chains: opsOf(/^chain$/) };
  };

  it('SAC concatenates the observations for its critics once', () => {
    const { launches, copies } = planned(tracedSac(rig.device));
    expect(copies.filter((op) => op === 'concat')).to.have.length(3);
    expect(launches).to.equal(71);
  });

  it('TD3 concatenates the observations for its critics once', () => {
    const { launches, copies } = planned(tracedTd3(rig.device));
    expect(copies.filter((op) => op === 'concat')).to.have.length(5);
    expect(launches).to.equal(54);
  });
});
