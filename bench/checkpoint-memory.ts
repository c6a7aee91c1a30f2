/**
 * A process of its own that saves a full buffer, or restores one, and prints the most memory that
 * it had meanwhile beyond what it had before, as the system counts it. Pages of files are the
 * system's and are not in it.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { Checkpoint } from '../src/index.ts';
import { filledRows, touchedRows } from './harness.ts';

const [doing, folder, rows, floats] = process.argv.slice(2) as [string, string, string, string];

const KIB = 1024;
/** bytes, of a line of this process's status */
function status(line: 'VmRSS' | 'VmHWM'): number {
  const found = new RegExp(`^${line}:\\s+(\\d+) kB$`, 'm').exec(
    readFileSync('/proc/self/status', 'utf8'),
  );
  return Number(found?.[1]) * KIB;
}

const buffer =
  doing === 'save'
    ? filledRows(Number(rows), Number(floats))
    : touchedRows(Number(rows), Number(floats));
const checkpoint = doing === 'save' ? await Checkpoint.open(folder, { buffer }) : null;
const before = status('VmRSS');
writeFileSync('/proc/self/clear_refs', '5');
const begin = performance.now();
if (checkpoint) await checkpoint.save();
else await Checkpoint.restore(folder, { buffer });
const seconds = (performance.now() - begin) / 1000;
const beyond = status('VmHWM') - before;
if (buffer.size !== buffer.capacity) throw new Error(`the buffer has ${buffer.size} rows`);
console.log(JSON.stringify({ beyond, seconds }));
await checkpoint?.close();
