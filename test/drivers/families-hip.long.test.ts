/** HIP over its software driver. */
import { itLong, setting } from '../rig/setting.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes } from './software.ts';

describeMode(modes.hipOld, { differs: ['graphs', 'capture', 'memory'] });
describeMode(modes.hip, { newest: true }, () => {
  // What is built on devices asks of HIP what it asks of CUDA: one code, two tables of calls.
  carriesAbove(modes.hip, { declare: itLong });
  hasPeers(modes.hip, { HOTSLOT_SOFTWARE_HIP: 'devices=2' }, itLong);
  failsEveryCall(modes.hip, setting({ short: 1, all: 1, long: 20 }));
});
