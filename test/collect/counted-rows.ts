/**
 * Rows of counting environments, wherever they were counted: each is the step that it says, and
 * none is missing.
 */
import { expect } from 'chai';

/**
 * `rows` lie one behind the other as ReplayBuffer.offPolicy() has them: obs 4, nextObs 4 … rewards
 * at 10, dones at 11.
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
    // Each environment's rows come in its order.
    const last = before.get(i!);
    if (last) expect([episode, count]).to.deep.equal(last[1] === 3 + i! ? [last[0]! + 1, 0] : last);
    before.set(i!, [nextEpisode!, nextCount!]);
  }
}

/**
 * What a policy sees of counting environments: the last observations of an episode, its first one
 * in place of earlier ones.
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
