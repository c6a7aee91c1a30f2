/**
 * Tests that a weight mailbox delivers versions whole, in order and the newest first, also to
 * threads that read during writes.
 */
import { expect } from 'chai';
import { systemMemory } from '../../src/base/system-addon.ts';
import { versionsOf, WeightMailbox } from '../../src/store/weights/weight-mailbox.ts';
import { refusal } from '../rig/refusal.ts';
import { TestThread } from '../rig/test-thread.ts';
import type { MailboxWork } from './mailbox-worker.ts';

const weights = (length: number, value: number) => new Float32Array(length).fill(value);

describe('WeightMailbox', () => {
  it('read() returns 0 and keeps `into` before the first version', () => {
    const box = WeightMailbox.create({ length: 5 });
    const into = weights(5, 9);
    expect([box.published, box.begun, box.read(into), into[0]]).to.deep.equal([0, 0, 0, 9]);
  });

  it('read() returns the newest version, or 0 if the reader already has that version', () => {
    const box = WeightMailbox.create({ length: 5 });
    const into = new Float32Array(5);
    for (let version = 1; version <= 10; version++)
      expect(box.write(weights(5, version))).to.equal(version);
    expect(box.read(into)).to.equal(10);
    expect(into).to.deep.equal(weights(5, 10));
    expect(box.read(into, 10), 'there is no newer version').to.equal(0);
    box.write(weights(5, 11));
    expect(box.read(into, 10)).to.equal(11);
  });

  it('Mailbox-2: begin() returns null and write() returns 0 while two versions are unpublished', () => {
    const box = WeightMailbox.create({ length: 3 });
    box.write(weights(3, 1));
    expect(versionsOf(box).begin()).to.deep.include({ version: 2, buffer: 2 });
    expect(versionsOf(box).begin()).to.deep.include({ version: 3, buffer: 0 });
    expect([versionsOf(box).begin(), box.write(weights(3, 9))]).to.deep.equal([null, 0]);
    const into = new Float32Array(3);
    expect([box.read(into), into[0]], 'the published version is unchanged').to.deep.equal([1, 1]);
    versionsOf(box).publish(2);
    expect(versionsOf(box).begin()).to.deep.include({ version: 4, buffer: 1 });
  });

  it('Mailbox-1: begin() places version v in buffer v mod 3', () => {
    const box = WeightMailbox.create({ length: 100 });
    for (let version = 1; version <= 7; version++) {
      const place = versionsOf(box).begin()!;
      expect(place).to.deep.equal({
        version,
        buffer: version % 3,
        byteOffset: (version % 3) * versionsOf(box).stride,
      });
      new Float32Array(
        versionsOf(box).view.buffer,
        versionsOf(box).view.byteOffset + place.byteOffset,
        100,
      ).fill(version);
      versionsOf(box).publish(version);
      const into = new Float32Array(100);
      expect([box.read(into), into[99]]).to.deep.equal([version, version]);
    }
  });

  it('publish() throws for versions that are out of order or were not begun', () => {
    const box = WeightMailbox.create({ length: 1 });
    expect(() => versionsOf(box).publish(1))
      .to.throw('0 is published and 0 begun')
      .with.property('code', 'ERR_HOTSLOT_STATE_BUSY');
    versionsOf(box).begin();
    versionsOf(box).begin();
    expect(() => versionsOf(box).publish(2)).to.throw('version 2 cannot be published');
    versionsOf(box).publish(1);
    expect(() => versionsOf(box).publish(1)).to.throw('version 1 cannot be published');
    versionsOf(box).publish(2);
    expect(box.published).to.equal(2);
    expect(() => versionsOf(box).publish(0)).to.throw(RangeError, 'version');
  });

  it('unpublished() returns the versions that an earlier writer began but did not publish', () => {
    const box = WeightMailbox.create({ length: 1 });
    versionsOf(box).begin();
    versionsOf(box).begin();
    versionsOf(box).publish(1);
    const successor = WeightMailbox.attach(structuredClone(box.share()));
    expect(
      versionsOf(successor)
        .unpublished()
        .map((place) => place.version),
    ).to.deep.equal([2]);
    versionsOf(successor).publish(2);
    expect(versionsOf(successor).unpublished()).to.deep.equal([]);
    expect(versionsOf(successor).begin()?.version).to.equal(3);
  });

  it('Mailbox-4: write() reuses refused versions in order, even if the first is refused twice', () => {
    const box = WeightMailbox.create({ length: 1 });
    for (const version of [1, 2]) expect(versionsOf(box).begin()?.version).to.equal(version);
    versionsOf(box).refuse(1);
    expect(box.write(weights(1, 1)), 'version 2 is still being written').to.equal(0);
    versionsOf(box).refuse(2);
    // A second run writes version 1, and its weights are non-finite again.
    versionsOf(box).refuse(1);
    expect([1, 2, 3].map((version) => box.write(weights(1, version)))).to.deep.equal([1, 2, 3]);
  });

  it('Mailbox-3: read() returns 0 after a write has begun in the buffer of the newest version', () => {
    const box = WeightMailbox.create({ length: 4 });
    box.write(weights(4, 1));
    // Simulates a device copy in progress: a write has begun in the buffer of version 1.
    const control = new Int32Array(box.share().memory, box.share().offset, 32);
    Atomics.store(control, 0, 4);
    expect(box.read(new Float32Array(4)), 'read() returns, but not version 1').to.equal(0);
    Atomics.store(control, 0, 3);
    expect(box.read(new Float32Array(4))).to.equal(1);
  });

  it('rings the bell after write() and publish(), and not after begin()', () => {
    const box = WeightMailbox.create({ length: 1 });
    const bell = versionsOf(box).bells.claim()!;
    box.write(weights(1, 1));
    versionsOf(box).begin();
    expect(bell.read()).to.equal(1);
    versionsOf(box).publish(2);
    expect(bell.read()).to.equal(2);
  });

  it('keeps the versions in page-aligned memory of whole pages', () => {
    const { misalignment } = systemMemory();
    const box = WeightMailbox.create({ length: 1500 });
    expect([
      misalignment(versionsOf(box).view, 4096),
      versionsOf(box).view.byteLength % 4096,
    ]).to.deep.equal([0, 0]);
    expect(versionsOf(box).stride % 256).to.equal(0);
    expect(versionsOf(box).view.byteLength).to.be.at.least(3 * 1500 * 4);
  });

  it('throws for invalid lengths, arrays and shared objects', () => {
    for (const length of [0, -1, 1.5, Number.NaN])
      expect(() => WeightMailbox.create({ length })).to.throw(RangeError, `got ${length}`);
    // A mailbox keeps three versions, here 6 GiB. In Node 20 an array has at most 4 GiB. Later
    // versions allow more, so that memory must be free.
    const [major = 0] = process.versions.node.split('.').map(Number);
    const refused = major < 22 ? refusal(() => WeightMailbox.create({ length: 2 ** 29 })) : null;
    if (refused) {
      expect(refused).to.be.instanceOf(RangeError).with.property('code', 'ERR_HOTSLOT_MEMORY');
      expect(refused.message).to.match(
        /mailbox of 3 × 536870912 float32 weights needs \d+ bytes of shared memory, and \d+ are free/,
      );
    }
    const box = WeightMailbox.create({ length: 4 });
    expect(() => box.write(weights(3, 0))).to.throw(
      TypeError,
      'weights must be a Float32Array of 4 elements, got 3 elements',
    );
    expect(() => box.read(new Float64Array(4) as unknown as Float32Array)).to.throw(
      TypeError,
      'into must be',
    );
    expect(() => WeightMailbox.attach({} as never)).to.throw(TypeError, 'share()');
    expect([box.begun, box.published]).to.deep.equal([0, 0]);
  });

  it('begin() and write() throw after version 2,147,483,647', () => {
    const box = WeightMailbox.create({ length: 1 });
    const control = new Int32Array(box.share().memory, box.share().offset, 32);
    control[0] = 2 ** 31 - 1;
    control[16] = 2 ** 31 - 1;
    expect(() => versionsOf(box).begin()).to.throw(RangeError, 'versions end at 2147483647');
    expect(() => box.write(weights(1, 0))).to.throw(RangeError, 'versions end');
  });

  it('read() returns whole, increasing versions while one thread writes and two threads read', async () => {
    const box = WeightMailbox.create({ length: 20_000 });
    const ready = new SharedArrayBuffer(4);
    const start = (role: MailboxWork['role']) =>
      new TestThread<MailboxWork>(new URL('./mailbox-worker.js', import.meta.url), {
        shared: box.share(),
        ready,
        together: 3,
        role,
        versions: 20_000,
      });
    const threads = [start('write'), start('read'), start('read')];
    const answers = await Promise.all(
      threads.map((thread) => thread.result<{ wrong: string | null; seen: number }>()),
    );
    for (const { wrong, seen } of answers) {
      expect(wrong).to.equal(null);
      expect(seen).to.be.greaterThan(0);
    }
    expect(box.published).to.equal(20_000);
  });
});
