/**
 * Checks the model of the mailbox of weights (mailbox.ts). The rules hold in every order of its
 * loads and stores. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import { type MailboxMutation, type MailboxSetup, mailboxProtocol } from './mailbox.ts';
import { proofsOf } from './proofs.ts';

function inWords({
  ticks,
  depth = 2,
  dies,
  odd,
  again,
  writes,
  open,
  rounds = 1,
}: MailboxSetup): string {
  const run = [
    `a run of ${ticks}, depth ${depth}`,
    ...(dies ? [`replay and poll die anywhere, replay ${dies}`] : []),
    ...(odd ? ['a version may be non-finite'] : []),
    ...(again ? [`then a run of ${again}`] : []),
  ];
  return [
    ...(ticks ? run : []),
    ...(writes ? [`${writes} written by a thread${open ? ' during the run' : ''}`] : []),
    `${rounds} read`,
  ].join(', ');
}
const { holds, caught, explored } = proofsOf<MailboxMutation, MailboxSetup>(
  mailboxProtocol,
  inWords,
);

const host: MailboxSetup = { ticks: 0, writes: 5 };
const device: MailboxSetup = { ticks: 4, writes: 0 };
const followed: MailboxSetup = { ticks: 3, dies: 'followed', writes: 0 };
const alone: MailboxSetup = { ticks: 3, dies: 'alone', writes: 2 };
/**
 * A version is refused, the version written in its place is refused too, and the pipeline stays
 * open.
 */
const twice: MailboxSetup = { ticks: 2, odd: true, again: 2, writes: 1, open: true };
const refused: MailboxSetup = { ticks: 4, odd: true, writes: 2 };

describe('weight mailbox model: rules hold', function () {
  this.timeout(60_000);

  for (const setup of [host, device, followed, alone, refused]) holds(setup);
  holds({ ...host, rounds: 2 });
  holds(twice);
  holds({ ticks: 2, odd: true, again: 1, dies: 'followed', writes: 0 });
  holds({ ...followed, ticks: 4 }, itAll);
  holds({ ticks: 2, odd: true, again: 2, dies: 'followed', writes: 0 }, itAll);
  holds({ ticks: 4, depth: 3, writes: 0 });
  holds({ ticks: 3, odd: true, again: 2, dies: 'followed', writes: 1, rounds: 2 }, itLong);
});

describe('weight mailbox model: mutations are caught', function () {
  this.timeout(60_000);
  after(() => console.log(`      ${explored()} of a mailbox`));

  const proves = (rule: string, setup: MailboxSetup, ...broken: MailboxMutation[]) => {
    for (const each of broken) caught(each, rule, setup);
  };
  describe('writers', () => {
    proves(
      'Mailbox-3',
      host,
      'a thread stores `begun` after it writes the buffer',
      'the writer does not fence after it stores `begun`',
    );
    proves('Mailbox-3', refused, 'a thread does not fence before it writes a version again');
    proves(
      'Mailbox-3',
      device,
      'replay enqueues the copy before it stores `begun`',
      'the mailbox uses only two of its three buffers',
    );
    proves(
      'Mailbox-3',
      host,
      'a thread stores `published` before it writes the buffer',
      'the writer stores `published` without release order',
    );
    proves('Mailbox-3', device, 'poll publishes a version before its copy completes');
    proves(
      'Mailbox-2',
      { ...device, ticks: 3, depth: 3 },
      'the writer begins a third unpublished version',
    );
    proves('Mailbox-2', refused, 'poll publishes versions out of order');
  });
  describe('successors and closed pipelines', () => {
    proves('Mailbox-3', followed, 'a successor lowers `begun` to `published`');
    proves('deadlock', followed, 'a successor ignores versions that the dead writer began');
    proves('Mailbox-3', followed, 'a successor lists unpublished versions before its slot is Free');
    proves('Mailbox-3', followed, 'a successor writes versions again that poll will publish');
    proves(
      'Mailbox-3',
      followed,
      'a successor does not compare its versions with `published` again',
    );
    proves('Mailbox-3', alone, 'a pipeline closes before its last copy completes');
    proves('deadlock', twice, 'poll lowers `refused` to an earlier version');
    proves('deadlock', alone, 'a closed pipeline does not refuse the versions that it began');
  });
  describe('readers', () => {
    proves(
      'Mailbox-3',
      host,
      'the reader loads `published` without acquire order',
      'the reader does not fence after its copy',
    );
    proves(
      'Mailbox-3',
      host,
      'the reader checks `begun` before its copy',
      'the reader trusts its copy without checking `begun`',
      'the reader trusts its copy for one version too long',
    );
    proves('newer', host, 'the reader accepts a version that is not newer');
  });
});
