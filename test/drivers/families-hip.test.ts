/** HIP over its software driver. */
import { describeAll } from '../rig/setting.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes } from './software.ts';

describeMode(modes.hipOld);
describeMode(modes.hip, { newest: true }, () => {
  describeAll('above', () => carriesAbove(modes.hip));
  hasPeers(modes.hip, { HOTSLOT_SOFTWARE_HIP: 'devices=2' });
  failsEveryCall(modes.hip, 2);
});
