/** Journals under every order of what is written and read, and each of their rules broken in turn. */
import { type JournalMutation, type JournalSetup, journalProtocol } from './journal.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ capacity, entries }: JournalSetup) => `room: ${capacity}, entries: ${entries}`;
const { holds, caught, explored } = proofsOf<JournalMutation, JournalSetup>(journalProtocol, inWords);

const small: JournalSetup = { capacity: 2, entries: 6 };

describe('journals', () => {
  holds(small);
  holds({ capacity: 4, entries: 12 });
});

describe("journals' rules, broken on purpose, are caught", () => {
  after(() => console.log(`      ${explored()} of journals`));

  caught('published before it is whole', 'J1', small);
  caught('begun without a look at the head', 'J1', small);
  caught('no second look', 'J1', small);
  caught('a second look that is an entry too patient', 'J1', small);
  caught('a second look before the copy', 'J1', small);
  caught('what the second look refuses is not counted', 'J2', small);
  caught('the next number is looked up at the end', 'J2', small);
});
