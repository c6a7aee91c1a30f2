/**
 * The reporter of `npm test`: mocha's own, which also prints the twenty slowest tests and eighty
 * slowest files before the failures. It adds each failure to the file HOTSLOT_TEST_FAILURES as
 * well, for commands that run mocha several times and print all failures at the end.
 * HOTSLOT_TEST_TIMES=write stores the seconds of the files, which order later runs: see times.ts.
 */
import { appendFileSync } from 'node:fs';
import Mocha from 'mocha';
import { SETTING } from './setting.ts';
import { keepTimes, nameOf } from './times.ts';

interface Took {
  readonly seconds: number;
  readonly title: string;
}

function tell(heading: string, all: readonly Took[], most: number): void {
  console.log(heading);
  const slowest = [...all].sort((a, b) => b.seconds - a.seconds).slice(0, most);
  for (const { seconds, title } of slowest)
    console.log(`${seconds.toFixed(1).padStart(7)} s  ${title}`);
}

export default class Slowest extends Mocha.reporters.Spec {
  readonly #begin = performance.now();
  readonly #took: (Took & { file: string })[] = [];

  constructor(runner: Mocha.Runner, options: Mocha.MochaOptions) {
    super(runner, options);
    const note = (test: Mocha.Test) =>
      this.#took.push({
        seconds: (test.duration ?? 0) / 1000,
        title: test.fullTitle(),
        file: nameOf(test.file ?? 'unknown'),
      });
    runner.on('pass', note);
    runner.on('fail', note);
    const failures = process.env.HOTSLOT_TEST_FAILURES;
    if (failures)
      runner.on('fail', (test, error) =>
        appendFileSync(failures, `${test.fullTitle()}\n${error?.stack ?? error}\n\n`),
      );
  }

  override epilogue(): void {
    const files = new Map<string, number>();
    for (const { seconds, file } of this.#took) files.set(file, (files.get(file) ?? 0) + seconds);
    tell('the slowest:', this.#took, 20);
    tell(
      'the slowest files:',
      [...files].map(([title, seconds]) => ({ title, seconds })),
      80,
    );
    if (process.env.HOTSLOT_TEST_TIMES === 'write') keepTimes(SETTING, files);
    super.epilogue();
    // The list of failures can be long. The sums come last, where a log's end shows them.
    const { passes, failures, pending } = this.stats;
    const wall = (performance.now() - this.#begin) / 1000;
    console.log(
      `${passes} passed, ${failures} failed, ${pending} left out in ${wall.toFixed(0)} s`,
    );
  }
}
