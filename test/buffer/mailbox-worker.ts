/**
 * A thread of the mailbox's stress test. It writes versions with two writes at a time, or reads
 * versions and checks every element.
 */
import {
  type SharedWeightMailbox,
  versionsOf,
  WeightMailbox,
} from '../../src/store/weights/weight-mailbox.ts';
import { givenTask, perform } from '../rig/test-thread.ts';

export interface MailboxWork {
  shared: SharedWeightMailbox;
  ready: SharedArrayBuffer;
  together: number;
  role: 'write' | 'read';
  versions: number;
}

const work = givenTask<MailboxWork>();
const box = WeightMailbox.attach(work.shared);
const ready = new Int32Array(work.ready);

function buffer(index: number): Float32Array {
  return new Float32Array(
    versionsOf(box).view.buffer,
    versionsOf(box).view.byteOffset + index * versionsOf(box).stride,
    box.length,
  );
}

/**
 * Writes odd versions by write(). Writes even versions as a device would: begins one, fills its
 * buffer, and publishes it later.
 */
function write(): { wrong: string | null; seen: number } {
  const weights = new Float32Array(box.length);
  for (let version = 1; version <= work.versions; version += 2) {
    if (box.write(weights.fill(version)) !== version)
      return { wrong: `write of ${version} refused`, seen: version };
    const place = versionsOf(box).begin();
    if (place?.version !== version + 1)
      return { wrong: `begin of ${version + 1} refused`, seen: version };
    buffer(place.buffer).fill(version + 1);
    versionsOf(box).publish(version + 1);
  }
  return { wrong: null, seen: work.versions };
}

function read(): { wrong: string | null; seen: number } {
  const into = new Float32Array(box.length);
  let seen = 0;
  for (let last = 0; last < work.versions; ) {
    const version = box.read(into, last);
    if (version === 0) continue;
    if (version <= last) return { wrong: `version ${version} came after ${last}`, seen };
    const at = into.findIndex((value) => value !== version);
    if (at >= 0) return { wrong: `version ${version} holds ${into[at]} at ${at}`, seen };
    last = version;
    seen++;
  }
  return { wrong: null, seen };
}

Atomics.add(ready, 0, 1);
Atomics.notify(ready, 0);
for (let now = Atomics.load(ready, 0); now < work.together; now = Atomics.load(ready, 0))
  Atomics.wait(ready, 0, now);
await perform(work.role === 'write' ? write : read);
