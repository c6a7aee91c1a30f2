/**
 * Tasks of other threads with handles that the test's thread created. A thread receives only the
 * numbers of the handles.
 */
import { Handle } from '../../src/device/handle.ts';
import {
  nativeGraphs,
  nativeHandles,
  nativeMemory,
  nativeStreams,
} from '../../src/device/native.ts';
import { waitEventSync } from '../../src/device/open.ts';
import {
  newPoller,
  newReplayer,
  newSubmitter,
  type Poller,
  TransferMode,
  Watch,
} from '../../src/device/transfer/native.ts';
import { DeviceSpec, ToDevice } from '../../src/entries/linop.ts';
import { type CpuTensor, openDevice, type Tensor } from '../../src/index.ts';
import { BELL_WORDS } from '../../src/shm/bell.ts';
import { givenTask, perform, say } from '../rig/test-thread.ts';

export interface Handles {
  device: string;
  other?: string;
  stream?: number;
  side?: number;
  event?: number;
  fork?: number;
  memory?: number;
  host?: number;
  exec?: number;
  bytes?: number;
  /** word 0: set by the test's thread, which notifies it */
  words?: Int32Array;
}
export interface HandleTask {
  task: TaskName;
  handles: Handles;
}

const { task, handles } = givenTask<{ task: TaskName; handles: Required<Handles> }>();
const { device: name, stream, side, event, fork, memory, host, exec, bytes, words } = handles;

/** With a bell the thread attends: it must help the device to execute. */
function poller(bell: boolean): Poller {
  const made = newPoller({
    device: openDevice(name).handle,
    events: [event],
    watch: new Int32Array(1).fill(Watch.pending),
    times: new Float64Array(1),
    sleepNs: 1_000_000,
    spinNs: 0,
    ...(bell ? { bell: new Int32Array(new SharedArrayBuffer(4 * BELL_WORDS)) } : {}),
  });
  if (bell) made.back();
  return made;
}
const submitter = () =>
  newSubmitter({
    stream,
    copied: [event],
    hosts: [host],
    hostOffsets: [0],
    slots: [memory],
    mode: TransferMode.immediate,
  });
const replayer = () =>
  newReplayer({ stream, spent: [event], graphs: [exec], times: new Float64Array(2) });

const tasks = {
  /**
   * Copies host memory to device memory, waits, launches a graph, and waits again. Each step uses
   * another addon.
   */
  actors() {
    const [submit, poll, replay] = [submitter(), poller(false), replayer()];
    submit.submit(0, bytes);
    while (poll.check(1_000_000) === 0);
    poll.close();
    replay.launch(0, -1);
    const again = poller(false);
    while (again.check(1_000_000) === 0);
    // The event may be done shortly before the stream reports that it is drained.
    let drained = false;
    for (const end = performance.now() + 60_000; !drained && performance.now() < end; )
      drained = replay.drained();
    for (const actor of [submit, again, replay]) actor.close();
    return drained;
  },
  query: () => nativeStreams().streamQuery(stream),
  /** Queries the stream until its failure is thrown. Gives up after a minute. */
  untilFailed() {
    for (const end = performance.now() + 60_000; performance.now() < end; )
      nativeStreams().streamQuery(stream);
    return 'a minute without an error';
  },
  endCapture: () => nativeGraphs().endCapture(stream),
  /**
   * Joins a capture that another thread began, and enqueues a fill. Records the event by which the
   * other thread joins this stream back.
   */
  joinCapture() {
    nativeStreams().wait(side, fork);
    nativeStreams().fill(side, memory, 0, bytes, new Int32Array([7]));
    nativeStreams().record(side, event);
    return nativeGraphs().capturing(side);
  },
  /** Allocates while another thread captures. Only the capturing thread is restricted. */
  allocate: () => nativeHandles().close(nativeMemory().allocate(openDevice(name).handle, 64)),
  /** Launches the graph without end, and counts the launches in word 0. */
  replays() {
    say('replaying');
    for (;;) {
      nativeGraphs().replay(stream, exec);
      Atomics.add(words, 0, 1);
    }
  },
  /** For each round in word 0, closes the handle in words 1 and 3. Confirms the round in word 2. */
  closes() {
    say('waiting');
    for (let round = 1; ; round++) {
      while (Atomics.load(words, 0) !== round) Atomics.wait(words, 0, round - 1, 100);
      nativeHandles().close(Atomics.load(words, 3) * 2 ** 20 + Atomics.load(words, 1));
      Atomics.store(words, 2, round);
    }
  },
  /** Keeps a capture open until word 0 changes. */
  captures() {
    nativeGraphs().beginCapture(stream);
    say('capturing');
    Atomics.wait(words, 0, 0);
    return nativeHandles().close(nativeGraphs().endCapture(stream));
  },
  beginCapture() {
    nativeGraphs().beginCapture(stream);
    return nativeGraphs().capturing(stream);
  },
  current() {
    const device = openDevice(name);
    using own = device.createStream();
    const main = device.currentStream.handle;
    return device.withStream(own, () => [main, device.currentStream.handle === own.handle]);
  },
  waitSync() {
    const device = openDevice(name);
    using mark = device.createEvent();
    device.currentStream.record(mark);
    while (!waitEventSync(device, mark, 40));
    return true;
  },
  /**
   * Moves a dense tensor, then the middle columns of a wider tensor, to the other device and back
   * by forwardSync().
   */
  moveSync() {
    using op = new ToDevice('cpu', name);
    const home = op.adjoint();
    using x = op.forward(Float32Array.of(1, 2, 3)) as Tensor;
    using y = op.forwardSync(Float32Array.of(9, 10, 11, 12, 19, 20, 21, 22)) as Tensor;
    const middle = y.view({ shape: [2, 2], offset: 1, strides: [4, 1] });
    return [x, middle].flatMap((each) =>
      Array.from((home.forwardSync(each) as CpuTensor).data, Number),
    );
  },
  /**
   * Sends the handle of the transfer stream and keeps both devices open until the thread is
   * terminated.
   */
  transferStream() {
    say(DeviceSpec.getTransferStream(openDevice(name), openDevice(handles.other as string)).handle);
    Atomics.wait(words, 0, 0);
  },
  /** Pins all handles and never releases them. */
  hold() {
    const held = [submitter(), poller(true), replayer()];
    say(held.length);
    Atomics.wait(words, 0, 0);
  },
  /**
   * Closes the event that another thread has pinned. Retries, because that thread may hold the pin
   * longer than close() waits.
   */
  closesPinned() {
    const closing = new Handle(event);
    while (!closing.closed) {
      try {
        closing.close();
      } catch (error) {
        if ((error as { code?: string }).code !== 'ERR_HOTSLOT_STATE_BUSY') throw error;
      }
    }
    return nativeHandles().handleCount(nativeHandles().kinds.event).pinned;
  },
  /** Pins the event until word 0 changes, then releases it. */
  letGo() {
    const held = poller(false);
    say('holding');
    Atomics.wait(words, 0, 0);
    held.close();
  },
  /** Attends, and waits natively for an event that is never done. */
  wait() {
    const attending = poller(true);
    say('waiting');
    while (attending.wait(0, 100) === 0);
  },
};
export type TaskName = keyof typeof tasks;

await perform(tasks[task]);
