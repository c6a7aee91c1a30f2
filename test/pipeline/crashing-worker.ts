/** A learner's thread that opens a pipeline and then waits. A message makes it crash. */
import { parentPort } from 'node:worker_threads';
import { ReplayBuffer, ReplayPipeline, type SharedReplayBuffer } from '../../src/index.ts';
import { givenTask, say } from '../rig/test-thread.ts';
import { TESTED } from '../rig/tested-device.ts';
import { SAMPLE } from './fixture.ts';

const buffer = givenTask<SharedReplayBuffer>();
await ReplayPipeline.open({
  buffer: ReplayBuffer.attach(buffer),
  device: TESTED,
  sampleCount: SAMPLE,
});
parentPort!.on('message', () => {
  throw new Error('a bug in a learner');
});
say('open');
