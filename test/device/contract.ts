/**
 * The device contract: the tests that every device family must pass. contract.test.ts runs it on
 * every available device. No test depends on a family. Each test must leave as many handles open as
 * it found.
 */
import { expect } from 'chai';
import { getSharedCaptureStream, getSharedGraphPool } from '../../src/entries/graph.ts';
import { type Device, openDevice } from '../../src/index.ts';
import { errorScope } from '../rig/error-scope.ts';
import { openHandles, pinnedHandles } from '../rig/handles.ts';
import { captureContract } from './contract/capture.ts';
import { errorContract } from './contract/errors.ts';
import { eventContract } from './contract/events.ts';
import { graphContract } from './contract/graphs.ts';
import { handleContract } from './contract/handles.ts';
import { kernelContract } from './contract/kernels.ts';
import { lifetimeContract } from './contract/lifetime.ts';
import { lostContract } from './contract/lost.ts';
import { managedContract } from './contract/managed.ts';
import { memoryContract } from './contract/memory.ts';
import { poolContract } from './contract/pools.ts';
import { streamContract } from './contract/streams.ts';
import { threadContract } from './contract/threads.ts';

type Section = (device: () => Device, name: string) => void;

const failing: Section = (device, name) =>
  errorScope(name) === 'stream' ? errorContract(device) : lostContract(device, name);

export const sections: Readonly<Record<string, Section>> = {
  memory: memoryContract,
  'managed memory': managedContract,
  streams: streamContract,
  events: eventContract,
  kernels: kernelContract,
  graphs: graphContract,
  capture: captureContract,
  pools: poolContract,
  errors: failing,
  handles: handleContract,
  threads: threadContract,
  lifetime: lifetimeContract,
};

export function deviceContract(name: string): void {
  describe(`device contract on ${name}`, () => {
    let device: Device;
    let openBefore: Record<string, number>;
    beforeEach(() => {
      device = openDevice(name);
      openBefore = openHandles();
    });
    afterEach(() => {
      device.close();
      expect(openHandles(), 'open handles').to.deep.equal(openBefore);
      expect(pinnedHandles(), 'pins').to.equal(0);
    });
    // Creates the handles that belong to the device itself before handles are counted. Other
    // threads may have the device open too.
    let held: Device;
    before(() => {
      held = openDevice(name);
      getSharedCaptureStream(held);
      getSharedGraphPool(held);
    });
    after(() => held.close());
    const opened = () => device;
    for (const [section, contract] of Object.entries(sections))
      describe(section, () => contract(opened, name));
  });
}
