/**
 * Checks the model of the replay rows' seqlock (rows.ts). The rules hold in every interleaving of
 * the writers and a reader. Each rule broken on purpose is caught.
 */
import { itLong } from '../rig/setting.ts';
import { proofsOf } from './proofs.ts';
import { type RowsMutation, type RowsSetup, rowsProtocol } from './rows.ts';

const inWords = ({ writers, capacity, board, reads = 0 }: RowsSetup) =>
  `${writers.map((adds) => adds.join('+')).join(', ')} rows into ${capacity}, ${board} on the board, ${reads} read`;
const { holds, caught, explored } = proofsOf(rowsProtocol, inWords);

describe('replay row seqlock model', function () {
  this.timeout(120_000);

  describe('rules hold', () => {
    holds({
      writers: [
        [1, 1],
        [1, 1],
      ],
      capacity: 3,
      board: 1,
      reads: 2,
    });
    holds({
      writers: [
        [1, 1],
        [1, 1],
      ],
      capacity: 1,
      board: 1,
      reads: 2,
    });
    holds({
      writers: [
        [2, 1],
        [1, 2],
      ],
      capacity: 3,
      board: 2,
    });
    holds({ writers: [[1], [1], [1]], capacity: 3, board: 2 });
    holds({ writers: [[1, 1], [1], [2]], capacity: 2, board: 1 });
    holds({ writers: [[1, 1], [1], [1]], capacity: 3, board: 2, reads: 1 }, itLong);
    holds({ writers: [[1], [1], [1], [1]], capacity: 3, board: 2 }, itLong);
  });

  describe('mutations are caught', () => {
    after(() => console.log(`      ${explored()} of replay rows`));
    const three = { writers: [[1, 1], [1], [1]], capacity: 3, board: 2 } as const;
    const read = {
      writers: [
        [1, 1],
        [1, 1],
      ],
      capacity: 1,
      board: 1,
      reads: 2,
    } as const;
    const inThree: [RowsMutation, string][] = [
      ['a writer commits its rows before earlier rows', 'Rows-3'],
      ['a writer checks the board before it stores `committed`', 'deadlock'],
      ['a writer checks `reserved` before it stores `committed`', 'deadlock'],
      ['a writer checks its turn before it fills the board', 'deadlock'],
      ['a writer does not check its turn again', 'deadlock'],
      ['a writer takes an entry of the board by a load and a store', 'Rows-3'],
      ['a writer reads the end after it frees the entry', 'deadlock'],
      ['a writer stores its turn before its end', 'Rows-3'],
      ['add() returns before another writer commits its rows', 'returns'],
    ];
    for (const [broken, rule] of inThree) caught(broken, rule, three);
    caught('a writer overwrites rows that are not committed yet', 'Rows-1', read);
    caught('a writer writes rows before it reserves them', 'Rows-4', {
      ...read,
      writers: [[1, 1]],
    });
    caught('a reader checks `reserved` before its copy', 'Rows-4', read);
    caught('a reader checks `committed` after its copy', 'Rows-4', read);
  });
});
