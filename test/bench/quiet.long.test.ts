/**
 * When figures are recorded, and what is said when they are not; and that a look at the machine
 * tells times.
 */
import { expect } from 'chai';
import { isWide, judged, MAX_SPREAD, Quiet, spreadOf, unquiet } from '../../bench/quiet.ts';
import { TIMES } from '../../bench/quiet-worker.ts';
import { itAll } from '../rig/setting.ts';

const times = (count: number, ms: number) => Array.from({ length: count }, () => ms);
const still = { numbers: 1.02, memory: 1.1 };

describe('how quiet a machine was', () => {
  it('the slow tenth over the fast tenth, so that one hiccup is no spread', () => {
    const numbers = [...times(11, 2), 50];
    const memory = [...times(8, 4), ...times(4, 6)];
    expect(spreadOf({ numbers, memory })).to.deep.equal({ numbers: 1, memory: 1.5 });
    expect(spreadOf({ numbers, memory }, 8)).to.deep.equal({ numbers: 25, memory: 1 });
  });
  it('no looks lie nowhere apart', () => {
    expect(spreadOf({ numbers: [], memory: [] })).to.deep.equal({ numbers: 1, memory: 1 });
  });
  it('either part is too wide by itself', () => {
    expect(isWide(MAX_SPREAD)).to.equal(false);
    expect(isWide({ ...still, numbers: MAX_SPREAD.numbers + 0.01 })).to.equal(true);
    expect(isWide({ ...still, memory: MAX_SPREAD.memory + 0.01 })).to.equal(true);
  });
  it('quiet benchmarks are recorded', () => {
    expect(unquiet({ pack: still, tick: MAX_SPREAD })).to.equal(null);
  });
  it('the others are refused by name, with what was seen and what to do', () => {
    const text = unquiet({ pack: still, tick: { numbers: 1.72, memory: 1.1 } });
    expect(text).to.match(
      /^not recorded: the machine was not quiet during 'tick' \(1\.72 × of numbers, 1\.10 × of memory\)/,
    );
    expect(text).to.match(/End what else runs here, or wait .* and run it again$/);
    expect(text).not.to.include('pack');
  });
  it('of a GPU, those figures are recorded all the same whose own rounds lie close together', () => {
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
  itAll('a look times each part on every core', async () => {
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
  });
});
