/**
 * Writes what mocha does, as one JSON object per line, to the file that HOTSLOT_TEST_REPORT names.
 * If a driver crashes the process or hangs in it, the file still shows how far the tests got.
 */
import { appendFileSync } from 'node:fs';

export interface Told {
  kind: 'begin' | 'pass' | 'fail' | 'pending' | 'end';
  /** full title, or for a hook the title of its test */
  title: string;
  /** name of the hook that failed, such as 'before each' */
  hook?: string;
  file: string;
  error?: string;
}

const file = process.env.HOTSLOT_TEST_REPORT;

export default class LineReporter {
  constructor(runner: Mocha.Runner) {
    const tell = (kind: Told['kind'], runnable?: Mocha.Test | Mocha.Hook, error?: Error) => {
      const hook = runnable?.type === 'hook' ? runnable : null;
      const test = hook?.ctx?.currentTest ?? runnable;
      const told: Told = { kind, title: test?.fullTitle() ?? '', file: test?.file ?? '' };
      if (hook) told.hook = hook.title;
      if (error) told.error = error.stack ?? error.message;
      if (file) appendFileSync(file, `${JSON.stringify(told)}\n`);
    };
    runner.on('test', (test) => tell('begin', test));
    runner.on('pass', (test) => tell('pass', test));
    runner.on('fail', (test, error) => tell('fail', test, error));
    runner.on('pending', (test) => tell('pending', test));
    runner.on('end', () => tell('end'));
  }
}
