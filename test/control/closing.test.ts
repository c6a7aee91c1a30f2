/** Tests that Closing closes once, however often it is called. */
import { expect } from 'chai';
import { Closing } from '../../src/base/closing.ts';
import { rejection } from '../rig/refusal.ts';

describe('Closing.once()', () => {
  it('closes once, and returns the same promise from every call', async () => {
    const closing = new Closing();
    let closed = 0;
    const close = () =>
      closing.once(async () => {
        await null;
        closed++;
      });
    expect(closing.begun).to.equal(false);
    const first = close();
    expect(closing.begun).to.equal(true);
    expect(close()).to.equal(first);
    await first;
    expect(close()).to.equal(first);
    expect(closed).to.equal(1);
  });

  it('keeps the rejection of a failed close until retry() is called', async () => {
    const closing = new Closing();
    let tries = 0;
    const close = () =>
      closing.once(async () => {
        tries++;
        if (tries < 2) throw new Error('pinned');
      });
    expect((await rejection(close())).message).to.equal('pinned');
    expect((await rejection(close())).message).to.equal('pinned');
    closing.retry();
    expect(closing.begun).to.equal(false);
    await close();
    expect([tries, closing.begun]).to.deep.equal([2, true]);
  });
});
