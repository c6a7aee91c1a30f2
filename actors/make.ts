/** Makes actors out of shared memory and handles alone, so that any thread can: a worker, a successor, the caller inline. */
import { ReplayBuffer, type SharedReplayBuffer } from '../src/buffer/replay-buffer.ts';
import { type SharedWeightMailbox, WeightMailbox } from '../src/buffer/weight-mailbox.ts';
import { openDevice } from '../src/device/open.ts';
import type { Ring, RingShare } from '../src/ring/ring.ts';
import { type Role, roles } from '../src/ring/slot.ts';
import { AttachedTransferBackend } from '../src/transfer/attached.ts';
import type { SharedTransferBackend } from '../src/transfer/backend.ts';
import { TransferMode } from '../src/transfer/native.ts';
import type { Bell } from '../src/wait/bell.ts';
import type { Actor } from './actor.ts';
import { PackActor } from './pack.ts';
import { PollActor } from './poll.ts';
import { ReplayActor } from './replay.ts';
import { SubmitActor } from './submit.ts';

/** Everything a thread needs to host its roles: shared memory and handles, no objects of the opener. */
export interface ActorSetup {
  ring: RingShare;
  buffer: SharedReplayBuffer;
  /** pack's thread waits on this bell of the buffer; −1 when the caller steps inline */
  packBell: number;
  mailbox: SharedWeightMailbox | null;
  backend: SharedTransferBackend;
  computeStream: number;
  spent: readonly number[];
  /** recorded before each update; empty when nothing is timed */
  updateBegins: readonly number[];
  host: Uint8Array;
  hostStride: number;
  /** where `out` lies in a host half */
  out: number;
  /** loads of the bell before parking; 0 where threads share cores */
  spins: number;
}

/** Makes the actors of these roles; `inline` for a caller that steps them itself and so helps the device in its looks. */
export function makeActors(setup: ActorSetup, hosted: readonly Role[], ring: Ring, bell: Bell | null): Actor[] {
  const { host, hostStride, out, spent, updateBegins, backend: shared } = setup;
  const mailbox = setup.mailbox && WeightMailbox.attach(setup.mailbox);
  const make: Record<Role, () => Actor> = {
    pack: () => new PackActor({ ring, buffer: ReplayBuffer.attach(setup.buffer), host, hostStride }),
    submit: () =>
      new SubmitActor({ ring, backend: new AttachedTransferBackend(shared), rowBytes: setup.buffer.layout.rowBytes }),
    poll: () => {
      using device = openDevice(shared.device); // the pipeline has it open for longer
      return new PollActor({
        ring,
        device: device.handle,
        copied: shared.copied,
        spent,
        copyBegins: shared.begins,
        updateBegins,
        deferred: shared.mode === TransferMode.deferred,
        host,
        hostStride,
        out,
        mailbox,
        bell,
        helpNs: bell ? 0 : 1_000_000,
        // A driver does not ring: look again soon.
        ...(device.traits.rings ? { sleepNs: 50_000_000, spinNs: 0 } : { sleepNs: 50_000, spinNs: 20_000 }),
      });
    },
    replay: () =>
      new ReplayActor({
        ring,
        backend: new AttachedTransferBackend(shared),
        stream: setup.computeStream,
        spent,
        begins: updateBegins,
        host,
        hostStride,
        out,
        mailbox,
      }),
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
