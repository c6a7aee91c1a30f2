/**
 * Checks rows of counting environments, wherever they were collected. Each row must be the step
 * that it claims to be, and no row may be missing.
 */
import { expect } from 'chai';

/**
 * Checks rows with the columns of ReplayBuffer.offPolicy(): 4 of obs, 4 of nextObs, the reward at
 * column 10, the done flag at 11. Rows are contiguous.
 */
export function expectCounted(rows: Float32Array, width: number): void {
  const before = new Map<number, number[]>();
  for (let row = 0; row < rows.length / width; row++) {
    const [i, episode, count, , nextI, nextEpisode, nextCount] = rows.subarray(row * width);
    const [reward, dones] = [rows[row * width + 10], rows[row * width + 11]];
    expect([nextI, nextEpisode, nextCount, reward]).to.deep.equal([
      i,
      episode,
      count! + 1,
      10 * i! + count! + 1,
    ]);
    expect(dones).to.equal(Number(nextCount === 3 + i!));
    // The rows of each environment are in the order of its steps.
    const last = before.get(i!);
    if (last) expect([episode, count]).to.deep.equal(last[1] === 3 + i! ? [last[0]! + 1, 0] : last);
    before.set(i!, [nextEpisode!, nextCount!]);
  }
}

/**
 * Checks the stacks that a policy of counting environments receives. A stack holds the last
 * observations of an episode. If there are too few, it repeats the first one.
 */
export function expectStacks(obs: Float32Array, n: number, stack: number): void {
  expect(obs).to.have.length(4 * n * stack);
  for (let i = 0; i < n; i++) {
    const frame = (at: number) => obs.subarray(4 * (i * stack + at), 4 * (i * stack + at) + 3);
    const [index, episode, count] = frame(stack - 1) as unknown as [number, number, number];
    for (let at = 0; at < stack; at++)
      expect([...frame(at)], `frame ${at} of ${stack}`).to.deep.equal([
        index,
        episode,
        Math.max(0, count - (stack - 1 - at)),
      ]);
  }
}
