/**
 * What every device family does alike, written once: contract.test.ts runs it on every available device. Nothing in here
 * knows a family. Each test leaves as many handles open as it found.
 */
import { expect } from 'chai';
import { type Device, openDevice } from '../../src/index.ts';
import { captureContract } from './contract/capture.ts';
import { errorContract } from './contract/errors.ts';
import { eventContract } from './contract/events.ts';
import { graphContract } from './contract/graphs.ts';
import { handleContract } from './contract/handles.ts';
import { kernelContract } from './contract/kernels.ts';
import { memoryContract } from './contract/memory.ts';
import { streamContract } from './contract/streams.ts';
import { threadContract } from './contract/threads.ts';
import { openHandles, pinnedHandles } from './rig.ts';

export function deviceContract(name: string): void {
  describe(`device contract on ${name}`, () => {
    let device: Device;
    let before: Record<string, number>;
    beforeEach(() => {
      device = openDevice(name);
      before = openHandles();
    });
    afterEach(() => {
      device.close();
      expect(openHandles(), 'open handles').to.deep.equal(before);
      expect(pinnedHandles(), 'pins').to.equal(0);
    });
    const opened = () => device;
    describe('memory', () => memoryContract(opened));
    describe('streams', () => streamContract(opened));
    describe('events', () => eventContract(opened));
    describe('kernels', () => kernelContract(opened));
    describe('graphs', () => graphContract(opened));
    describe('capture', () => captureContract(opened));
    describe('errors', () => errorContract(opened));
    describe('handles', () => handleContract(opened));
    describe('threads', () => threadContract(opened));
  });
}
