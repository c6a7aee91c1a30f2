/**
 * Tests leaseKey() if other clients change the key between its commands. Each test scripts the
 * commands and replies.
 */
import { expect } from 'chai';
import { LinkError } from '../../src/net/remote/link.ts';
import { leaseKey } from '../../src/net/remote/redis-lease.ts';
import { rejection } from '../rig/refusal.ts';

/** Returns a `call` that answers with these replies in order and checks each command. */
function replies(...said: readonly [string, string | null | Error][]) {
  let at = 0;
  const call = async (args: readonly string[]): Promise<string | null> => {
    const [command, reply] = said[at++]!;
    expect(args[0]).to.equal(command);
    if (reply instanceof Error) throw reply;
    return reply;
  };
  const lease = async () => {
    const holder = await leaseKey(call, 'key', 'me', '1000');
    expect(at).to.equal(said.length);
    return holder;
  };
  return lease;
}
const held = (holder: string | null) =>
  [['SET', null] as const, ['WATCH', 'OK'] as const, ['GET', holder] as const] as const;
const prolong = (exec: string | null | Error) =>
  [['MULTI', 'OK'] as const, ['PEXPIRE', 'QUEUED'] as const, ['EXEC', exec] as const] as const;
type Said = [string, string | null | Error];
const said = (...parts: readonly (readonly (readonly [string, string | null | Error])[])[]) =>
  replies(...(parts.flat() as Said[]));

describe('leaseKey()', () => {
  it('takes a free key, and renews its own lease', async () => {
    expect(await said([['SET', 'OK']])()).to.equal('me');
    expect(await said(held('me'), prolong('1'))()).to.equal('me');
  });

  it('returns the other holder, and sends UNWATCH', async () => {
    expect(await said(held('other'), [['UNWATCH', 'OK']])()).to.equal('other');
  });

  it('starts again when the key expires or changes its holder between the commands', async () => {
    expect(await said(held(null), [['SET', 'OK']])()).to.equal('me');
    expect(await said(held('me'), prolong(null), held('other'), [['UNWATCH', 'OK']])()).to.equal(
      'other',
    );
  });

  it('rejects with the error of the refused command instead of EXECABORT', async () => {
    const denied = new LinkError('denied', 'NOPERM');
    const aborted = new LinkError('denied', 'EXECABORT');
    expect(
      await rejection(
        said(held('me'), [
          ['MULTI', 'OK'],
          ['PEXPIRE', denied],
          ['EXEC', aborted],
        ]),
      ),
    ).to.equal(denied);
    expect(await rejection(said(held('me'), prolong(aborted)))).to.equal(aborted);
  });
});
