/**
 * The first message of processes that do something together. All say the same, or an error names
 * the process that differs.
 */
import { createHash } from 'node:crypto';
import { typeError } from '../../base/errors.ts';

/** Version of the messages between processes, which rises when they change. */
const PROTOCOL = 2;
/** bytes that each process gives, equally many because they are gathered */
const RECORD = 256;

/**
 * Returns a record of what is begun, in words, and of all facts that have to be the same
 * everywhere.
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
