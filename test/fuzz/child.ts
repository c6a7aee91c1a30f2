/**
 * The process that makes the calls. Before each call it writes the call's number into a file. So if
 * it ends or hangs, its parent knows at which call. Arguments: what is fuzzed, the device, and the
 * file.
 */
import { openSync, writeSync } from 'node:fs';
import { Random } from '../../src/index.ts';
import { Calling, type Counts, hearAll } from './calling.ts';
import { type KindName, kinds } from './kinds.ts';
import type { Call } from './values.ts';

/** The calls of a seed from one number to another, or these calls in a fresh place. */
export type Task = { seed: number; from: number; to: number } | { calls: readonly Call[] };
export interface Answer {
  /** the failed call, if any: its number, and how many calls its place had seen before */
  fault: { text: string; n: number; before: number } | null;
  counts: Counts;
  forms: [form: string, calls: number, answers: number][];
}

const [name = 'door', device = 'host:0', progress = ''] = process.argv.slice(2);
hearAll();
const kind = await kinds[name as KindName](device);
const file = openSync(progress, 'r+');
const number = Buffer.alloc(16);
const at = (n: number) => {
  number.writeDoubleLE(n, 0);
  number.writeDoubleLE(number.readDoubleLE(8) + 1, 8);
  writeSync(file, number, 0, 16, 0);
};

async function perform(task: Task): Promise<Answer> {
  const calling = new Calling(kind);
  const answer = (fault: Answer['fault']): Answer => ({
    fault,
    counts: calling.counts,
    forms: [...calling.forms].map(([form, [calls, answers]]) => [form, calls, answers]),
  });
  const [from, to] = 'calls' in task ? [0, task.calls.length] : [task.from, task.to];
  for (let n = from; n < to; n++) {
    at(n);
    const call = 'calls' in task ? (task.calls[n] as Call) : kind.draw(new Random(task.seed, n));
    const before = calling.before;
    const fault = await calling.call(call);
    if (fault === null) continue;
    await calling.fresh();
    return answer({ ...fault, n, before });
  }
  at(to);
  const fault = await calling.fresh();
  return answer(fault && { ...fault, n: to - 1, before: calling.before });
}

process.on('message', (task: Task) => {
  void perform(task).then((answer) => process.send?.(answer));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
