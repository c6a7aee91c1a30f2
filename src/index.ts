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
export type {
  Device,
  DeviceEvent,
  DeviceFamily,
  DeviceInfo,
  Graph,
  GraphExec,
  HostMemory,
  LaunchArguments,
  MemoryInfo,
  Stream,
} from './device/device.ts';
export { listDevices, openDevice } from './device/open.ts';
export { Tensor } from './device/tensor.ts';
export type { DType, TypedArray } from './dtype.ts';
export { DeviceError, type ErrorCode, PipelineError } from './errors.ts';
export { Adam, type AdamOptions } from './learner/adam.ts';
export { type DqnBatch, DqnLearner, type DqnOptions } from './learner/dqn.ts';
export { Mlp, type MlpWorkspace } from './learner/mlp.ts';
export { MlpLayout, type MlpOptions } from './learner/mlp-layout.ts';
export { MlpPolicy } from './learner/policy.ts';
export type { RunOptions } from './pipeline/autonomous.ts';
export type { CaptureContext, CaptureFunction, CaptureOptions } from './pipeline/capture.ts';
export type { Tick } from './pipeline/history.ts';
export type { TransferManifest } from './pipeline/manifest.ts';
export type { PipelineOptions, Placement, TraceOptions } from './pipeline/options.ts';
export type { Batch } from './pipeline/slots.ts';
export type { StageName, StageTimes, Summary } from './pipeline/summary.ts';
export { ReplayPipeline, type WaitOptions } from './pipeline.ts';
export type { Role } from './ring/slot.ts';
export type {
  H2dSubmitter,
  HostMemoryKind,
  ReplayTransferBackend,
  SubmitH2dOptions,
} from './transfer/backend.ts';
export { buildReplayTransferBackend } from './transfer/build.ts';
export { CudaLikeReplayTransferBackend } from './transfer/cuda-like.ts';
export { HostCopyReplayTransferBackend } from './transfer/host-copy.ts';
export { TransferMode } from './transfer/native.ts';
export { XpuReplayTransferBackend } from './transfer/xpu.ts';
