/** The reporter of `npm test`: mocha's own, then the twenty slowest tests and the sums of the run. */
import Mocha from 'mocha';

export default class Slowest extends Mocha.reporters.Spec {
  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const begin = performance.now();
    const took: { seconds: number; title: string }[] = [];
    const note = (test: Mocha.Test) => took.push({ seconds: (test.duration ?? 0) / 1000, title: test.fullTitle() });
    runner.on('pass', note);
    runner.on('fail', note);
    runner.on('end', () => {
      const { passes, failures, pending } = this.stats;
      const slowest = took.sort((a, b) => b.seconds - a.seconds).slice(0, 20);
      console.log('the slowest:');
      for (const { seconds, title } of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s  ${title}`);
      const wall = (performance.now() - begin) / 1000;
      console.log(`\n${passes} passed, ${failures} failed, ${pending} left out in ${wall.toFixed(0)} s`);
    });
  }
}
