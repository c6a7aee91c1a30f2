/** Tests HIP devices on their software driver, as ROCm 5.2 and ROCm 7. */
import { itLong, setting } from '../rig/setting.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes } from './software.ts';

describeMode(modes.hipOld, { differs: ['graphs', 'capture', 'memory'] });
describeMode(modes.hip, { newest: true }, () => {
  // Modules above devices use the same code for HIP and CUDA, with two tables of calls.
  carriesAbove(modes.hip, { declare: itLong });
  hasPeers(modes.hip, { HOTSLOT_SOFTWARE_HIP: 'devices=2' }, itLong);
  failsEveryCall(modes.hip, setting({ short: 1, all: 1, long: 20 }));
});
