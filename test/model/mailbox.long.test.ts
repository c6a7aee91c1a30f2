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
    proves('Mailbox-3', host, 'begun stored behind the bytes', 'no fence behind begun');
    proves('Mailbox-3', refused, 'no fence where a version is written again');
    proves(
      'Mailbox-3',
      device,
      'copy ordered before begun is stored',
      'a version in every other buffer',
    );
    proves(
      'Mailbox-3',
      host,
      'published stored before the bytes',
      'published stored without release',
    );
    proves('Mailbox-3', device, 'published before the copy has landed');
    proves('Mailbox-2', { ...device, ticks: 3, depth: 3 }, 'three unpublished');
    proves('Mailbox-2', refused, 'versions published out of order');
  });
  describe('successors and closed pipelines', () => {
    proves('Mailbox-3', followed, 'begun lowered by a successor');
    proves('deadlock', followed, 'what a dead writer began left alone');
    proves('Mailbox-3', followed, 'what is left looked for before the slot is free');
    proves('Mailbox-3', followed, 'what poll will publish written again');
    proves('Mailbox-3', followed, 'what is left not held against published again');
    proves('Mailbox-3', alone, 'a pipeline closed while a copy is under way');
    proves('deadlock', twice, 'refused moved back');
    proves('deadlock', alone, 'a closed pipeline keeps what it began');
  });
  describe('readers', () => {
    proves('Mailbox-3', host, 'published loaded without acquire', 'no fence behind the copy');
    proves(
      'Mailbox-3',
      host,
      'begun looked at before the copy',
      'begun not looked at',
      'trusted for one version more',
    );
    proves('newer', host, 'newer than not looked at');
  });
});
