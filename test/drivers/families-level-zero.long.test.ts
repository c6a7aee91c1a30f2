/** Level Zero over its software driver, as of each of its times. */
import { describeAll, itLong, SETTING, setting } from '../rig/setting.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes } from './software.ts';

describeMode(modes.ze14, {}, () => {
  // Its calls are others than today's; what is built on them is the same.
  describeAll('modules above devices, and failing driver calls', () => {
    carriesAbove(modes.ze14, { declare: itLong });
    if (SETTING === 'long') failsEveryCall(modes.ze14, 20);
  });
});
describeMode(modes.zeBare, {
  differs: ['memory', 'managed memory', 'streams', 'events', 'graphs'],
});
describeMode(modes.ze, { newest: true }, () => {
  describeAll('modules above devices', () => carriesAbove(modes.ze, { brief: true }));
  hasPeers(modes.ze, { HOTSLOT_SOFTWARE_ZE: 'modern,devices=2' });
  failsEveryCall(modes.ze, setting({ short: 1, all: 1, long: 20 }));
});
describeMode(modes.zeIntel);
describeMode(modes.zeGraph, { differs: ['graphs', 'capture'] });
