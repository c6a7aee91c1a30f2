/**
 * Leaves out waits between the two streams of a captured update. The software driver's detector of
 * missing waits compares the nodes of the graph, and must find each.
 */
import { expect } from 'chai';
import { modes, need, run } from '../../drivers/software.ts';
import { describeAll } from '../../rig/setting.ts';

describeAll('waits between the streams of a captured update', function () {
  this.timeout(300_000);

  for (const mode of [modes.cuda13, modes.hip])
    it(`${mode.name}: a replay without one of them is found`, async function () {
      need(this, mode);
      const probe = (omitted: number) =>
        run(mode, ['dist/test/learner/traced/lanes-waits-probe.js', String(omitted)]);
      const whole = await probe(0);
      expect(whole.stderr).to.equal('');
      const count = Number(whole.stdout);
      expect(count).to.be.above(8);
      const ends = { found: 0, refused: 0, unneeded: 0 };
      for (let omitted = 1; omitted <= count; omitted++) {
        const { status, stderr } = await probe(omitted);
        if (/node \d+ of a graph.*an edge of the graph/.test(stderr)) ends.found++;
        else if (/STREAM_CAPTURE_(ISOLATION|UNJOINED)/.test(stderr)) ends.refused++;
        else if (status === 0) ends.unneeded++;
        else expect.fail(`wait ${omitted}: ${stderr}`);
      }
      // Without the first or last wait, the side stream is not a part of the capture. The first wait of
      // a later section is unneeded if its draw touches nothing that the sections before it touch.
      expect(ends.refused).to.be.at.most(2);
      expect(ends.unneeded).to.be.at.most(2);
      expect(ends.found).to.equal(count - ends.refused - ends.unneeded);
    });
});
