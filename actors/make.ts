/**
 * Creates actors from shared memory and handles only. So any thread can create them: a worker, its
 * successor, or the caller for inline actors.
 */

import { openDevice } from '../src/device/open.ts';
import { AttachedTransferBackend } from '../src/device/transfer/attached.ts';
import { AttachedDeviceRows } from '../src/engine/device-rows/attached.ts';
import type { Actor, ActorSetup } from '../src/engine/pipeline/actors.ts';
import { attachPacker, headPacker } from '../src/engine/pipeline/packer.ts';
import { HostBuffers } from '../src/engine/ring/host-buffers.ts';
import type { Ring } from '../src/engine/ring/ring.ts';
import { type Role, roles } from '../src/engine/ring/slot.ts';
import type { Bell } from '../src/shm/bell.ts';
import { WeightVersions } from '../src/store/weights/weight-versions.ts';
import { Averager } from './averager.ts';
import { Ingest } from './ingest.ts';
import { PackActor } from './pack.ts';
import { PollActor } from './poll.ts';
import { ReplayActor } from './replay.ts';
import { SubmitActor } from './submit.ts';

/**
 * Intervals for a device that rings no bell. After an event, poll spins for `spinNs`, then sleeps
 * `sleepNs` between two checks. EAGER applies if a core is free for poll, else SPARING.
 *
 * A sleep lasts tens of microseconds longer than requested. This is short compared with an update
 * of milliseconds, but long compared with a shorter one. So EAGER spins for longer.
 */
const EAGER = { sleepNs: 10_000, spinNs: 2_000_000 };
const SPARING = { sleepNs: 50_000, spinNs: 20_000 };

/**
 * Creates the actors of the roles `hosted`. `bell` is the bell of their thread, or null if the
 * caller steps the actors inline. Without a bell, poll does not sleep in native code. It then helps
 * the device during each check instead.
 */
export function makeActors(
  setup: ActorSetup,
  hosted: readonly Role[],
  ring: Ring,
  bell: Bell | null,
): Actor[] {
  const { slots } = setup;
  const hostBuffers = new HostBuffers(slots.host);
  const mailbox = setup.mailbox && new WeightVersions(setup.mailbox);
  const attach = () => new AttachedTransferBackend(slots.backend);
  const rows = setup.deviceRows && new AttachedDeviceRows(setup.deviceRows);
  const make: Record<Role, () => Actor> = {
    pack: () => {
      if (rows === null)
        return new PackActor({
          ring,
          packer: attachPacker(setup.source, hostBuffers, ring.depth),
          hostBuffers,
          ingest: null,
        });
      const ingest = new Ingest(ring, rows, hostBuffers);
      return new PackActor({
        ring,
        packer: headPacker(rows, hostBuffers, ingest),
        hostBuffers,
        ingest,
      });
    },
    submit: () => new SubmitActor({ ring, backend: attach(), hostBuffers }),
    poll: () => {
      using device = openDevice(slots.backend.device); // the pipeline keeps the device open
      return new PollActor({
        ring,
        hostBuffers,
        slots,
        device: device.handle,
        mailbox,
        mailboxReadback: setup.mailboxReadback,
        bell,
        rows,
        helpNs: bell ? 0 : 1_000_000,
        ...(device.traits.rings
          ? { sleepNs: 50_000_000, spinNs: 0 }
          : setup.coresFree
            ? EAGER
            : SPARING),
        passOn: !device.traits.rings,
        averager:
          setup.averaging &&
          new Averager(ring, setup.averaging, device.handle, slots.computeStream, mailbox),
      });
    },
    replay: () => new ReplayActor({ ring, hostBuffers, slots, backend: attach(), mailbox }),
  };
  const made: Actor[] = [];
  try {
    for (const role of roles) if (hosted.includes(role)) made.push(make[role]());
  } catch (error) {
    for (const actor of made) actor.close();
    throw error;
  }
  return made;
}
