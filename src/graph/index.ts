/** `hotslot/graph`: whole iterations as one captured graph, over static buffers, with random numbers inside. */
export {
  type FullGraphOptions,
  FullGraphWrapper,
  type IterationContext,
  type IterationFunction,
} from './full-graph-wrapper.ts';
export { DeviceGenerator, type GeneratorState } from './generator.ts';
export type { DataIterator, IterationData, IterationOptions } from './iteration.ts';
export type { PerStage } from './kept.ts';
export { type GraphPool, getGraphPool, getSharedCaptureStream, getSharedGraphPool } from './shared.ts';
export { type Stage, StaticBufferLoader } from './static-buffer-loader.ts';
export { cloneTensorsInStruct, copyTensorsInStruct, type TensorLike, type TensorStruct } from './struct.ts';
