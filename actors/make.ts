/**
 * Makes actors out of shared memory and handles alone, so that any thread can: a worker, a
 * successor, the caller inline.
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
 * How poll looks at a device that does not ring. A sleep takes tens of microseconds more than was
 * asked for: little compared with an update of milliseconds, much compared with a shorter one.
 */
const EAGER = { sleepNs: 10_000, spinNs: 2_000_000 };
const SPARING = { sleepNs: 50_000, spinNs: 20_000 };

/**
 * Makes the actors of these roles. They have no bell for a caller that steps them itself and so
 * helps the device in its looks.
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
      using device = openDevice(slots.backend.device); // the pipeline has it open for longer
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
