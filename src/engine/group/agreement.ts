/**
 * The first message of processes that begin a common operation. All must send the same record, or
 * an error names the process that differs.
 */
import { createHash } from 'node:crypto';
import { typeError } from '../../base/errors.ts';

/** Version of the messages between processes. Increase it when a message changes. */
const PROTOCOL = 2;
/**
 * Bytes of each process's record. All records have the same size, because one collective call
 * gathers the records of all processes.
 */
const RECORD = 256;

/**
 * Returns a record of the operation `what`, as text, and a hash of the facts that must be equal in
 * all processes.
 */
export function recordOf(what: string, facts: unknown): Uint8Array {
  const hash = createHash('sha256').update(JSON.stringify(facts)).digest('hex');
  const bytes = new Uint8Array(RECORD);
  bytes.set(new TextEncoder().encode(JSON.stringify([PROTOCOL, what, hash])));
  return bytes;
}

/** Throws a TypeError that names the first process which differs from process 0. */
export function checkAgreed(all: Uint8Array): void {
  const records = Array.from({ length: all.length / RECORD }, (_, process) => {
    const text = new TextDecoder().decode(all.slice(process * RECORD, (process + 1) * RECORD));
    return JSON.parse(text.slice(0, text.indexOf('\0'))) as [
      protocol: number,
      what: string,
      hash: string,
    ];
  });
  const [first] = records;
  for (const [process, [protocol, what, hash]] of records.entries()) {
    if (protocol !== first![0])
      throw typeError(
        `process ${process} runs another version of Hotslot than process 0; install one version everywhere`,
      );
    if (what !== first![1])
      throw typeError(
        `process ${process} begins ${what} where process 0 begins ${first![1]}; every process must do the same in the same order`,
      );
    if (hash !== first![2])
      throw typeError(
        `process ${process} begins ${what} with other options than process 0; options must be equal in all processes`,
      );
  }
}
