/**
 * Checks the model of roles that move between two threads (hosting.ts). Slot-10 holds in every
 * interleaving. Each rule broken on purpose is caught.
 */

import { itAll, itLong } from '../rig/setting.ts';
import { type HostingMutation, type HostingSetup, hostingProtocol } from './hosting.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ changes, wishes, deaths }: HostingSetup) =>
  `${changes} changes, ${wishes} wishes of another thread, ${deaths} deaths: one host at a time, and every wish is served`;
const { holds, caught } = proofsOf<HostingMutation, HostingSetup>(hostingProtocol, inWords);

const plain: HostingSetup = { changes: 2, wishes: 1, deaths: 0 };
const dying: HostingSetup = { ...plain, deaths: 1 };

describe('role hosting model', () => {
  for (const changes of [1, 2] as const) holds({ changes, wishes: 1, deaths: 1 });
  holds({ changes: 3, wishes: 1, deaths: 1 }, itAll);
  holds({ changes: 3, wishes: 2, deaths: 0 });
  holds({ changes: 2, wishes: 2, deaths: 2 }, itLong);

  caught('a thread takes up roles before the other thread gives them up', 'Slot-10', plain);
  caught('a thread stores `seen` before it gives up its roles', 'Slot-10', plain);
  caught('a thread that gives up its roles rings no bell', 'deadlock', plain);
  caught('the client changes the table and rings no bell', 'deadlock', plain);
  caught('a thread reads the table before it stores its request', 'deadlock', plain);
  caught('a successor takes up roles without waiting', 'Slot-10', dying);
});
