/**
 * Tests which benchmark figures are recorded, the message for figures that are not, and that Quiet
 * measures times.
 */
import { expect } from 'chai';
import { isWide, judged, MAX_SPREAD, Quiet, spreadOf, unquiet } from '../../bench/quiet.ts';
import { TIMES } from '../../bench/quiet-worker.ts';
import { itAll } from '../rig/setting.ts';

const times = (count: number, ms: number) => Array.from({ length: count }, () => ms);
const still = { numbers: 1.02, memory: 1.1 };

describe('checks for a quiet machine', () => {
  it('spreadOf() divides the slow tenth by the fast tenth, so one outlier adds no spread', () => {
    const numbers = [...times(11, 2), 50];
    const memory = [...times(8, 4), ...times(4, 6)];
    expect(spreadOf({ numbers, memory })).to.deep.equal({ numbers: 1, memory: 1.5 });
    expect(spreadOf({ numbers, memory }, 8)).to.deep.equal({ numbers: 25, memory: 1 });
  });
  it('spreadOf() returns 1 if there are no samples', () => {
    expect(spreadOf({ numbers: [], memory: [] })).to.deep.equal({ numbers: 1, memory: 1 });
  });
  it('isWide() returns true if either part is above its maximum', () => {
    expect(isWide(MAX_SPREAD)).to.equal(false);
    expect(isWide({ ...still, numbers: MAX_SPREAD.numbers + 0.01 })).to.equal(true);
    expect(isWide({ ...still, memory: MAX_SPREAD.memory + 0.01 })).to.equal(true);
  });
  it('unquiet() returns null if no benchmark is above the maximum', () => {
    expect(unquiet({ pack: still, tick: MAX_SPREAD })).to.equal(null);
  });
  it('unquiet() returns the name and spread of a noisy benchmark, and what to do', () => {
    const text = unquiet({ pack: still, tick: { numbers: 1.72, memory: 1.1 } });
    expect(text).to.match(
      /^not recorded: the machine was not quiet during 'tick' \(1\.72 × of numbers, 1\.10 × of memory\)/,
    );
    expect(text).to.match(/End what else runs here, or wait .* and run it again$/);
    expect(text).not.to.include('pack');
  });
  it('judged() keeps steady figures of a noisy benchmark for a GPU, but not for the CPU', () => {
    const figure = (bench: string, quartiles: readonly [number, number] | null, more = {}) => ({
      bench,
      case: 'a case',
      metric: 'time',
      value: 10,
      unit: 'µs',
      ...(quartiles && { quartiles }),
      ...more,
    });
    const steady = figure('tick', [9, 11]);
    const figures = [
      steady,
      figure('tick', [9, 12]),
      figure('tick', null),
      figure('tick', [9, 11], { baseline: 20, baselineQuartiles: [20, 26] }),
      figure('seen', [9, 12]),
      figure('graph', [9, 12]),
    ];
    const spreads = {
      tick: { numbers: 1.36, memory: 1.1 },
      seen: { numbers: 1.36, memory: 1.1 },
      graph: still,
    };
    const quiet = figures[5]!;
    expect(judged('cuda:0', figures, spreads)).to.deep.equal({
      kept: [steady, quiet],
      refused: { seen: spreads.seen },
    });
    const { tick, seen } = spreads;
    expect(judged('host:0', figures, spreads)).to.deep.equal({
      kept: [quiet],
      refused: { tick, seen },
    });
  });
  itAll(
    'Quiet measures plausible times, and around() returns the spread of the last two looks',
    async () => {
      const quiet = await Quiet.open(2);
      quiet.look();
      const from = quiet.mark;
      const spread = quiet.around();
      expect([quiet.around(), spreadOf(quiet.looks, from).numbers]).to.deep.equal([
        spread,
        spread.numbers,
      ]);
      await quiet.close();
      expect(quiet.looks.numbers.length % TIMES).to.equal(0);
      for (const ms of [...quiet.looks.numbers, ...quiet.looks.memory])
        expect(ms).to.be.within(0.05, 5000);
      expect(spread.numbers).to.be.at.least(1);
      expect(spread.memory).to.be.at.least(1);
    },
  );
});
