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
      ['committed before those before', 'Rows-3'],
      ['the board looked at before committed is stored', 'deadlock'],
      ['reserved looked at before committed is stored', 'deadlock'],
      ['the own turn looked at before the board is filled', 'deadlock'],
      ['the own turn never looked at again', 'deadlock'],
      ['taken from the board by a load and a store', 'Rows-3'],
      ['its end read behind its place is free', 'deadlock'],
      ['its turn stored before its end', 'Rows-3'],
      ['on the board, not committed, and add() returns', 'returns'],
    ];
    for (const [broken, rule] of inThree) caught(broken, rule, three);
    caught('written before the earlier lap is whole', 'Rows-1', read);
    caught('written before it is reserved', 'Rows-4', { ...read, writers: [[1, 1]] });
    caught('a reader looks at reserved before it copies', 'Rows-4', read);
    caught('a reader looks at committed behind its copy', 'Rows-4', read);
  });
});
