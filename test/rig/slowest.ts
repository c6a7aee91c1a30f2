/** The reporter of `npm test`: mocha's own, with the twenty slowest tests before the sums and what failed. */
import Mocha from 'mocha';

export default class Slowest extends Mocha.reporters.Spec {
  readonly #begin = performance.now();
  readonly #took: { seconds: number; title: string }[] = [];

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const note = (test: Mocha.Test) =>
      this.#took.push({ seconds: (test.duration ?? 0) / 1000, title: test.fullTitle() });
    runner.on('pass', note);
    runner.on('fail', note);
  }

  override epilogue(): void {
    const slowest = this.#took.sort((a, b) => b.seconds - a.seconds).slice(0, 20);
    console.log('the slowest:');
    for (const { seconds, title } of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s  ${title}`);
    super.epilogue();
    // The list of failures can be long; the sums come last, where a log's end shows them.
    const { passes, failures, pending } = this.stats;
    const wall = (performance.now() - this.#begin) / 1000;
    console.log(`${passes} passed, ${failures} failed, ${pending} left out in ${wall.toFixed(0)} s`);
  }
}
