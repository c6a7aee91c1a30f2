/**
 * `hotslot/graph`: whole training iterations as one captured graph over static buffers, which can
 * generate random numbers.
 */

export { DeviceGenerator, type GeneratorState } from '../device/graph/generator.ts';
export {
  type GraphPool,
  getGraphPool,
  getSharedCaptureStream,
  getSharedGraphPool,
} from '../device/graph/shared.ts';
export type { PerStage } from '../extras/full-iteration/captured-iterations.ts';
export {
  type FullGraphOptions,
  FullGraphWrapper,
  type IterationContext,
  type IterationFunction,
} from '../extras/full-iteration/full-graph-wrapper.ts';
export type {
  DataIterator,
  IterationData,
  IterationOptions,
} from '../extras/full-iteration/iteration.ts';
export { type Stage, StaticBufferLoader } from '../extras/full-iteration/static-buffer-loader.ts';
export {
  cloneTensorsInStruct,
  copyTensorsInStruct,
  type TensorLike,
  type TensorStruct,
} from '../extras/full-iteration/struct.ts';
