/**
 * Writes what mocha does as it happens, a JSON object per line into the file that
 * HOTSLOT_TEST_REPORT names: a process that a driver takes down, or that hangs in it, has still
 * told how far it came.
 */
import { appendFileSync } from 'node:fs';

export interface Told {
  kind: 'begin' | 'pass' | 'fail' | 'pending' | 'end';
  /** full title; a hook's is that of the test it belongs to */
  title: string;
  /** 'before each', …: what failed was not the test itself */
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
