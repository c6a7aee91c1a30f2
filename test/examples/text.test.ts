/**
 * Tests the lines that the CartPole example prints: they fit the terminal's width and show the most
 * important values first.
 */
import { expect } from 'chai';
import { liveLines, plainLine } from '../../examples/cartpole-dqn/text.ts';
import type { Progress } from '../../examples/cartpole-dqn/training.ts';
import { cut } from '../../src/run/train/live-display.ts';

const progress: Progress = {
  seconds: 12.34,
  ticks: 12_345,
  steps: 401_234,
  episodes: 1234,
  meanReturn: 237.4,
  loss: 0.01234,
  meanQ: 55,
  bufferFill: 0.815,
  waitingFor:
    'samples: a batch of 1,024 needs 51,008 rows inserted, has 50,992 (1,632,000 sampled)',
  evaluations: 3,
  greedyReturn: 411.2,
};
const rates = { steps: 51_234.4, ticks: 1601.2 };

describe('progress text of the cartpole-dqn example', () => {
  for (const columns of [20, 40, 80, 132, 240]) {
    it(`live lines leave at least 3 of ${columns} columns free`, () => {
      for (const line of liveLines(progress, rates))
        expect(cut(line, columns).length).to.be.at.most(columns - 3);
    });
  }

  it('live lines show the return, both rates, the loss and the buffer in 80 columns', () => {
    const [above, below] = liveLines(progress, rates).map((line) => cut(line, 80));
    expect(above).to.equal(
      ' 12.3 s [████████········] return 237 of 475  51,234 steps/s  1,601 ticks/s',
    );
    expect(below).to.match(
      /^ +loss 0\.0123 {2}buffer 82% {2}waits for samples: a batch of 1,024 .*…$/,
    );
  });

  it('lines show a dash instead of NaN before the first episode and tick', () => {
    const empty = { ...progress, meanReturn: Number.NaN, loss: Number.NaN, greedyReturn: null };
    expect(plainLine(empty, rates)).to.match(/return – of 475 .*loss – /);
    expect(liveLines(empty, rates).join('\n')).to.not.include('NaN');
  });

  it('plainLine() shows the time, the return, the steps and the greedy return', () => {
    expect(plainLine(progress, rates)).to.match(
      /12\.3 s {2}return 237\.4 of 475 .*401,234 steps {2}greedy at most 411/,
    );
  });
});
