/** When figures are recorded, and what is said when they are not; and that a look at the machine tells times. */
import { expect } from 'chai';
import { isWide, Quiet, spreadOf, unquiet, WIDEST } from '../../bench/quiet.ts';
import { TIMES } from '../../bench/quiet-worker.ts';

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
    expect(isWide(WIDEST)).to.equal(false);
    expect(isWide({ ...still, numbers: WIDEST.numbers + 0.01 })).to.equal(true);
    expect(isWide({ ...still, memory: WIDEST.memory + 0.01 })).to.equal(true);
  });
  it('quiet benchmarks are recorded', () => {
    expect(unquiet({ pack: still, tick: WIDEST })).to.equal(null);
  });
  it('the others are refused by name, with what was seen and what to do', () => {
    const text = unquiet({ pack: still, tick: { numbers: 1.72, memory: 1.1 } });
    expect(text).to.match(
      /^not recorded: the machine was not quiet during 'tick' \(1\.72 × of numbers, 1\.10 × of memory\)/,
    );
    expect(text).to.match(/End what else runs here, or wait .* and run it again$/);
    expect(text).not.to.include('pack');
  });
  it('a look times each part on every core', async () => {
    const quiet = await Quiet.open(2);
    quiet.look();
    const from = quiet.mark;
    const spread = quiet.around();
    expect([quiet.around(), spreadOf(quiet.looks, from).numbers]).to.deep.equal([spread, spread.numbers]);
    await quiet.close();
    expect(quiet.looks.numbers.length % TIMES).to.equal(0);
    for (const ms of [...quiet.looks.numbers, ...quiet.looks.memory]) expect(ms).to.be.within(0.05, 5000);
    expect(spread.numbers).to.be.at.least(1);
    expect(spread.memory).to.be.at.least(1);
  });
});
