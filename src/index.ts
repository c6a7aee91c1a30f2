/** The only door. Everything a user needs is exported here; nothing else is reachable. */

export type { FieldLayout, FieldSpec, PackLayout } from './buffer/pack-layout.ts';
export { RateLimiter, type RateLimiterOptions, type SharedRateLimiter } from './buffer/rate-limiter.ts';
export { ReplayBuffer, type Sample, type SampleOptions, type SharedReplayBuffer } from './buffer/replay-buffer.ts';
export type { OffPolicyRows, SchemaRows } from './buffer/row-input.ts';
export { uniformIndices } from './buffer/sampler.ts';
export { type SharedWeightMailbox, WeightMailbox } from './buffer/weight-mailbox.ts';
export type { Collector, CollectorContext, CollectorFactory, CollectorReport } from './collectors/collector.ts';
export { CollectorPool, type CollectorPoolOptions } from './collectors/collector-pool.ts';
export type { CollectorStatistics } from './collectors/statistics.ts';
export { CpuTensor } from './device/cpu-tensor.ts';
export type {
  Device,
  DeviceEvent,
  Graph,
  GraphExec,
  HostMemory,
  LaunchArguments,
  Stream,
} from './device/device.ts';
export { Tensor } from './device/device.ts';
export type { Advice, DeviceFamily, DeviceInfo, MemoryInfo, Residency } from './device/facts.ts';
export { listDevices, openDevice } from './device/open.ts';
export type { DType, TypedArray } from './dtype.ts';
export {
  DeviceError,
  type ErrorCode,
  PipelineError,
  UnifiedMemoryCompileTimeoutError,
  UnifiedMemoryUnsupportedError,
} from './errors.ts';
export {
  type FullGraphOptions,
  FullGraphWrapper,
  type IterationContext,
  type IterationFunction,
} from './graph/full-graph-wrapper.ts';
export { DeviceGenerator, type GeneratorState } from './graph/generator.ts';
export type { DataIterator, IterationOptions } from './graph/iteration.ts';
export { type GraphPool, getGraphPool, getSharedCaptureStream, getSharedGraphPool } from './graph/shared.ts';
export { type Stage, StaticBufferLoader } from './graph/static-buffer-loader.ts';
export { cloneTensorsInStruct, copyTensorsInStruct, type TensorLike, type TensorStruct } from './graph/struct.ts';
export {
  type Edge as HaloEdge,
  type EdgeSlicesOptions,
  edgeSlices,
  edges as haloEdges,
} from './halo/edges.ts';
export type { HaloQuantity } from './halo/quantity.ts';
export type { HaloExchangeOptions, SharedHaloExchange } from './halo/shared-exchange.ts';
export { failHaloExchange, shareHaloExchange } from './halo/shared-exchange.ts';
export {
  HaloExchangeSpec,
  type HaloExchangeSpecOptions,
  type HaloRange,
  type QuantityHaloOptions,
  QuantityHaloSpec,
} from './halo/spec.ts';
export {
  type CubedSphereTopologyOptions,
  type CubeFace,
  cubedSphereTopology,
  cubeFaces,
  type HaloNeighbour,
  type HaloPlace,
  type HaloTopology,
  type PeriodicTopologyOptions,
  periodicTopology,
} from './halo/topology.ts';
export {
  HaloDataTransformer,
  HaloDataTransformerDevice,
  HaloDataTransformerHost,
  type HaloStats,
} from './halo/transformer.ts';
export { HaloUpdater, type HaloUpdaterOptions, type HaloWaitOptions } from './halo/updater.ts';
export { Adam, type AdamOptions } from './learner/adam.ts';
export { type DqnBatch, DqnLearner, type DqnOptions } from './learner/dqn.ts';
export { Mlp, type MlpWorkspace } from './learner/mlp.ts';
export { MlpLayout, type MlpOptions } from './learner/mlp-layout.ts';
export { MlpPolicy } from './learner/policy.ts';
export { DeviceSpec } from './linop/device-spec.ts';
export { Chain, type ForwardOptions, Identity, NamedLinop } from './linop/named-linop.ts';
export type { Answer, NamedShape, Operand } from './linop/operand.ts';
export { ToDevice } from './linop/to-device.ts';
export { CompilationState, compilationError, compilationState, compileAllocator } from './memory/compilation.ts';
export {
  adviseManagedModuleParametersPreferredLocation,
  type ManagedModule,
  prefetchManagedModuleParameters,
} from './memory/managed-module.ts';
export {
  adviseManagedTensorAccessedBy,
  adviseManagedTensorPreferredLocation,
  type MaybeTensor,
  type PrefetchOptions,
  prefetchManagedTensor,
} from './memory/managed-tensor.ts';
export { createUnifiedMempool, type MempoolStats, type UnifiedMempool } from './memory/mempool.ts';
export type { RunOptions } from './pipeline/autonomous.ts';
export type { CaptureContext, CaptureFunction, CaptureOptions } from './pipeline/capture.ts';
export type { Tick } from './pipeline/history.ts';
export type { TransferManifest } from './pipeline/manifest.ts';
export type { PipelineOptions, Placement, TraceOptions } from './pipeline/options.ts';
export { ReplayPipeline } from './pipeline/replay-pipeline.ts';
export type { Batch } from './pipeline/slots.ts';
export type { StageName, StageTimes, Summary } from './pipeline/summary.ts';
export { Random } from './random.ts';
export type { Role } from './ring/slot.ts';
export type {
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SubmitH2dOptions,
} from './transfer/backend.ts';
export { buildReplayTransferBackend } from './transfer/build.ts';
export {
  CudaLikeReplayTransferBackend,
  HostCopyReplayTransferBackend,
  XpuReplayTransferBackend,
} from './transfer/families.ts';
export { TransferMode } from './transfer/native.ts';
export type { WaitOptions } from './wait/wait.ts';
