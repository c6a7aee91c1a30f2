/**
 * Loaded by every run: the error of a failed comparison contains up to 2,000 characters of both
 * values, because often only a log is left. Chai's default is 40.
 */
import { config } from 'chai';
import './timed-out.ts';

config.truncateThreshold = 2000;
