/**
 * Runs the native code without JavaScript under sanitizers, which find races and memory errors that
 * no assertion on results can find.
 */
import { describeAll, itAll, itLong, SETTING, setting } from '../rig/setting.ts';
import {
  build,
  environment,
  type Harness,
  missing,
  missingRig,
  type Rig,
  run,
  type Sanitizer,
} from './harnesses.ts';

const host: Rig = { name: 'host', family: 'host', told: {} };
/**
 * Makes a failing kernel lose only its stream, because one scenario uses other streams after a
 * failure.
 */
const scope = 'sticky=stream';
const cuda: Rig = {
  name: 'CUDA 13.0',
  family: 'cuda',
  told: { HOTSLOT_SOFTWARE_CUDA: `13.0,devices=2,${scope}` },
};
const newest: Rig = {
  name: 'the newest Level Zero',
  family: 'xpu',
  told: { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2' },
};
const hip: Rig = {
  name: 'HIP of ROCm 7',
  family: 'rocm',
  told: { HOTSLOT_SOFTWARE_HIP: 'devices=2' },
};
/** Each version of Level Zero builds lists and graphs from different driver calls. */
const others: Rig[] = [
  { name: 'Level Zero 1.4', family: 'xpu', told: { HOTSLOT_SOFTWARE_ZE: 'spec=1.4,devices=2' } },
  { name: 'Level Zero 1.9', family: 'xpu', told: { HOTSLOT_SOFTWARE_ZE: 'spec=1.9,devices=2' } },
  newest,
];
/**
 * Returns the duration in ms of an average scenario. The CPU device gets more time, because its
 * executor has the most that can go wrong.
 */
const milliseconds = ({ family }: Rig) =>
  SETTING === 'long' ? (family === 'host' ? 10_000 : 5_000) : family === 'host' ? 250 : 120;
/**
 * Arguments that shorten the other harnesses in `test:all`: part of the time, of the exchanges or
 * of the sizes. Without arguments they run in full.
 */
const brief: Partial<Record<Harness, string[]>> = setting({
  short: {},
  all: { rows: ['40'], lanes: ['80'], ranks: ['100'], kernels: ['brief'] },
  long: {},
});

describe('native harnesses', function () {
  this.timeout(setting({ short: 300_000, all: 600_000, long: 3_600_000 }));

  function leaveWhere(why: string | null, context: Mocha.Context): void {
    if (why === null) return;
    console.log(`      skipped: ${why}`);
    context.skip();
  }
  const finds = (harness: Harness, sanitizer: Sanitizer, declare: typeof itAll = it) =>
    declare(`${harness} finds no error`, function (this: Mocha.Context) {
      leaveWhere(missing(sanitizer), this);
      return run(build(harness, sanitizer), brief[harness]);
    });
  const core = (rig: Rig, sanitizer: Sanitizer) =>
    function (this: Mocha.Context) {
      leaveWhere(missing(sanitizer) ?? missingRig(rig), this);
      const env = environment(rig, sanitizer);
      return run(build('core', sanitizer), [rig.family, String(milliseconds(rig))], env);
    };
  const title = ({ name }: Rig) => `core finds no error on ${name}`;

  describe('without a sanitizer', () => {
    // These harnesses test code without threads.
    finds('kernels', '', itLong);
    finds('tree', '', itLong);
  });
  describe('under the thread sanitizer', () => {
    finds('cores', 'thread', itAll);
    finds('rows', 'thread', itAll);
    finds('lanes', 'thread', itAll);
    finds('ranks', 'thread', itAll);
    for (const rig of [host, cuda]) itAll(title(rig), core(rig, 'thread'));
    for (const rig of [hip, ...others]) itLong(title(rig), core(rig, 'thread'));
  });
  describeAll('under the address and undefined-behavior sanitizers', () => {
    finds('cores', 'address,undefined');
    finds('rows', 'address,undefined');
    finds('tree', 'address,undefined');
    finds('lanes', 'address,undefined');
    finds('ranks', 'address,undefined');
    finds('kernels', 'address,undefined');
    for (const rig of [host, cuda, newest]) it(title(rig), core(rig, 'address,undefined'));
    for (const rig of [hip, ...others])
      if (rig !== newest) itLong(title(rig), core(rig, 'address,undefined'));
  });
});
