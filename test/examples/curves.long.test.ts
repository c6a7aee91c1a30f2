/**
 * Tests `npm run curves`: its command line, the spread over the seeds, and the pictures of the
 * recorded and the published curves.
 */
import { expect } from 'chai';
import { draw, spreadOf } from '../../bench/curves/draw.ts';
import { published } from '../../bench/curves/published.ts';
import { type CurveRecord, readRecord } from '../../bench/curves/record.ts';
import { run } from '../cli/run-command.ts';
import { itAll } from '../rig/setting.ts';

/** Two seeds. The second is evaluated at later steps and learns twice as much. */
const record: CurveRecord = {
  environment: 'Line-v1',
  algorithm: 'sac',
  episodes: 10,
  cpu: '2 × CPU',
  node: 'v20',
  commit: '',
  date: '',
  command: 'npm run curves -- Line',
  runs: [1, 2].map((seed) => ({
    seed,
    steps: 80 + seed,
    updates: 80,
    seconds: 8 * seed,
    curve: Array.from({ length: 8 }, (_, i) => ({
      steps: 10 * (i + 1) + seed,
      seconds: (i + 1) * seed,
      meanReturn: seed * (10 * (i + 1) + seed),
      deviation: 1,
    })),
  })),
};

describe('npm run curves', () => {
  it('spreadOf() returns mean, low and high over the range that every seed covers', () => {
    const bySteps = spreadOf(record, 'steps', 'us');
    expect([bySteps[0]!.x, bySteps.at(-1)!.x]).to.deep.equal([12, 81]);
    // Each curve is the straight line seed × steps.
    for (const { x, mean, low, high } of bySteps) {
      expect(low).to.be.closeTo(x, 1e-9);
      expect(high).to.be.closeTo(2 * x, 1e-9);
      expect(mean).to.be.closeTo(1.5 * x, 1e-9);
    }
    const bySeconds = spreadOf(record, 'seconds', 'us');
    expect([bySeconds[0]!.x, bySeconds.at(-1)!.x]).to.deep.equal([2, 8]);
  });

  it('draw() draws a curve alone, with another curve, and with a single figure', async () => {
    for (const others of [[], published['HalfCheetah-sac']!, published['Pendulum-sac']!]) {
      const svg = await draw(record, others);
      expect(svg).to.match(/^<svg .*<\/svg>$/s);
      expect(svg).not.to.match(/NaN|undefined|null/);
      for (const text of [
        'SAC on Line-v1',
        'environment steps',
        'seconds',
        'Hotslot, Line-v1, 2 seeds, greedy',
      ])
        expect(svg).to.include(text);
      for (const { who } of others) expect(svg).to.include(`>${who}<`);
    }
  });

  it('published curves have increasing steps, and a mean between low and high', () => {
    for (const [name, others] of Object.entries(published))
      for (const { points } of others)
        for (const [i, [steps, mean, low, high]] of points.entries()) {
          if (i > 0) expect(steps, name).to.be.greaterThan(points[i - 1]![0]);
          if (low !== null) expect([low <= mean, mean <= high!], name).to.deep.equal([true, true]);
        }
  });

  it('draw() draws every recorded curve', async () => {
    for (const name of Object.keys(published)) {
      const kept = readRecord(name);
      if (kept) expect(await draw(kept, published[name]!)).to.match(/^<svg /);
    }
  });

  itAll('rejects an unknown curve with exit code 2, and lists the curves', async () => {
    const { code, stderr } = await run('bench/curves/main.js', ['Tetris']);
    expect(code).to.equal(2);
    expect(stderr).to.include(
      "a curve is one of Pendulum-sac, Pendulum-td3, CartPole-dqn, HalfCheetah-sac, Showdown-masked, Showdown-unmasked, got 'Tetris'",
    );
  });
});
