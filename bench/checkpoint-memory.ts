/**
 * A process that saves or restores a full buffer. It prints the peak of its resident memory beyond
 * the memory before, and the seconds. The page cache is not part of that memory.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { Checkpoint } from '../src/index.ts';
import { filledRows, touchedRows } from './harness.ts';

const [doing, folder, rows, floats] = process.argv.slice(2) as [string, string, string, string];

const KIB = 1024;
/** Returns the bytes of a line in this process's /proc status. */
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
