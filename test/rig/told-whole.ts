/**
 * Loaded by every run: a failed comparison tells what was compared, of which a log is all that is
 * left. Chai's own is 40 characters.
 */
import { config } from 'chai';
import './timed-out.ts';

config.truncateThreshold = 2000;
