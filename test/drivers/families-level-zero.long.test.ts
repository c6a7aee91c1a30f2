/**
 * Tests Level Zero devices on their software driver, as old and new versions and with each set of
 * extensions.
 */
import { describeAll, itLong, SETTING, setting } from '../rig/setting.ts';
import { failsEveryCall } from './failing-calls.ts';
import { carriesAbove, describeMode, hasPeers } from './families.ts';
import { modes } from './software.ts';

describeMode(modes.ze14, {}, () => {
  // Version 1.4 uses other driver calls than today's version. The modules above devices are the
  // same.
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
