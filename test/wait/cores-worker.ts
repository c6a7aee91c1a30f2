/**
 * A thread that runs Hotslot's code until it is terminated. It reports how many such threads there
 * are.
 */
import { coresNow } from '../../src/base/cores.ts';
import { say } from '../rig/test-thread.ts';

say(coresNow().threads);
setInterval(() => {}, 1000);
