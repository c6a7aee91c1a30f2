/** Writes entries of a journal as fast as it can; every number of an entry is its own. */
import { Journal, type JournalShare } from '../../src/engine/ring/journal.ts';
import { MOST_SCALARS, RECORD_FIELDS } from '../../src/engine/ring/slot.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

const { share, entries } = givenTask<{ share: JournalShare; entries: number }>();

await perform(() => {
  const journal = new Journal(share);
  const [record, scalars] = [new Float64Array(RECORD_FIELDS), new Float32Array(MOST_SCALARS)];
  say('begins');
  for (let n = 0; n < entries; n++) journal.write(record.fill(n), n, scalars.fill(n));
});
