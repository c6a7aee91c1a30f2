/**
 * Tests errors in shared memory: any thrown value can be encoded, and is decoded with as much of it
 * as fits.
 */
import { expect } from 'chai';
import { rangeError } from '../src/base/errors.ts';
import { decodeError, encodeError } from '../src/shm/error.ts';
import { oddErrors } from './rig/odd-errors.ts';

describe('encodeError() and decodeError()', () => {
  for (const [what, thrown] of Object.entries(oddErrors)) {
    it(`return an error within the byte limit for ${what}`, () => {
      for (const most of [200, 4032, 1_000_000]) {
        const bytes = encodeError(thrown, most);
        expect(bytes.length).to.be.at.most(most);
        const error = decodeError(bytes);
        expect(error).to.be.instanceOf(Error);
        expect([typeof error.message, typeof `${error.message}`]).to.deep.equal([
          'string',
          'string',
        ]);
      }
    });
  }

  it('drop the stack first, then the cause, then the end of the message', () => {
    const error = rangeError('m'.repeat(300));
    error.cause = new Error('c'.repeat(300));
    error.stack = 's'.repeat(300);
    (error.cause as Error).stack = '';
    const through = (most: number) => decodeError(encodeError(error, most)) as typeof error;
    expect(through(1200))
      .to.be.instanceOf(RangeError)
      .and.include({ stack: error.stack, message: error.message });
    const brief = through(900);
    expect([brief.message, (brief.cause as Error).message]).to.deep.equal([
      'm'.repeat(300),
      'c'.repeat(300),
    ]);
    expect(brief.stack).not.to.equal(error.stack);
    expect(decodeError(encodeError(oddErrors['a long name'], 4032)).message).to.equal('odd');
    const bare = through(500);
    expect([bare.code, bare.message, bare.cause]).to.deep.equal([
      'ERR_HOTSLOT_RANGE',
      error.message,
      undefined,
    ]);
    expect(through(200))
      .to.be.instanceOf(RangeError)
      .and.include({ message: 'm'.repeat(150) });
  });
});
