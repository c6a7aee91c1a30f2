/**
 * NODE_OPTIONS loads this module before the probe's own script. It writes the process id to a file,
 * and then hangs, crashes or throws as requested.
 */
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

const { HOTSLOT_TEST_PROBES: file, HOTSLOT_TEST_TROUBLE: trouble } = process.env;
if (process.argv[1]?.endsWith('probe.js') && file) {
  const { appendFileSync } = fs;
  // The probe's first output. It has opened drivers and is bound to its parent by then.
  const writeSync = fs.writeSync;
  let told = false;
  let tried = false;
  fs.writeSync = ((...args: Parameters<typeof writeSync>) => {
    if (!told) appendFileSync(file, `${process.pid}\n`);
    told = true;
    // 'hang later' hangs after the output which says that the probe tries a device.
    const later = trouble === 'hang later' && tried;
    tried ||= String(args[1]).includes('"trying"');
    if (trouble === 'hang' || later) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    if (trouble === 'crash') process.kill(process.pid, 'SIGSEGV');
    if (trouble === 'throw') throw new Error('the probe of the test fails');
    return writeSync(...args);
  }) as typeof writeSync;
  syncBuiltinESMExports();
}
