/**
 * `hotslot`: the replay path. Buffers, collectors, the pipeline, devices and weights. Each other subject has a door of its own:
 * `hotslot/collect`, `learner`, `graph`, `memory`, `linop`, `halo`, `ranks`, `remote`, `formats`, `monitor` and `transfer`. Nothing behind the doors is reachable.
 */

import './assembly.ts';

export type { LoadedActions } from './buffer/action-check.ts';
export type { LoadOptions } from './buffer/data-set.ts';
export type { NonFiniteNumbers } from './buffer/field-roles.ts';
export type {
  CriticRows,
  DTypeIn,
  FieldSpec,
  Fields,
  FieldsOf,
  OffPolicyFields,
  OffPolicyRows,
  PackedRows,
  RowFlags,
  RowsOf,
  SchemaRows,
  SchemaRowsOf,
  TerminatedRows,
  TransitionsOf,
} from './buffer/fields.ts';
export { type GoalRewardOptions, goalReward } from './buffer/goal-reward.ts';
export type { FieldLayout, PackLayout } from './buffer/pack-layout.ts';
export type { Mark } from './buffer/packed.ts';
export { RateLimiter, type RateLimiterOptions, type SharedRateLimiter } from './buffer/rate-limiter.ts';
export { ReplayBuffer, type SharedReplayBuffer } from './buffer/replay-buffer.ts';
export { type Sample, type SampleOptions, uniformIndices } from './buffer/sampler.ts';
export { type SharedWeightMailbox, WeightMailbox } from './buffer/weight-mailbox.ts';
export { Checkpoint } from './checkpoint/checkpoint.ts';
export type { CheckpointContents } from './checkpoint/inspect.ts';
export type { PartFacts, PartName, Plain, PlainRecord } from './checkpoint/manifest.ts';
export type { CheckpointEvents, CheckpointOptions, RestoredCheckpoint, SavedCheckpoint } from './checkpoint/options.ts';
export type { CheckpointCollectors, CheckpointLearner, CheckpointParts } from './checkpoint/parts.ts';
export {
  type AnyCollector,
  type BufferField,
  type Collected,
  type Collector,
  type CollectorContext,
  type CollectorFactory,
  type CollectorReport,
  defineCollector,
} from './collectors/collector.ts';
export { CollectorPool } from './collectors/collector-pool.ts';
export type { RunningCollectors } from './collectors/pool-hold.ts';
export type { CollectorPoolOptions } from './collectors/pool-options.ts';
export type { CollectorStatistics, Episode } from './collectors/statistics.ts';
export type { CoresNow } from './cores.ts';
export { CpuTensor } from './device/cpu-tensor.ts';
export type {
  Device,
  DeviceEvent,
  Graph,
  GraphExec,
  HostMemory,
  LaunchArguments,
  LoadedArguments,
  Storage,
  Stream,
} from './device/device.ts';
export { Tensor } from './device/device.ts';
export type {
  Advice,
  DeviceFamily,
  DeviceInfo,
  DeviceTraits,
  HostKind,
  MemoryInfo,
  Residency,
} from './device/facts.ts';
export type { ArgumentsOf, KernelName } from './device/kernels.ts';
export { listDevices, openDevice } from './device/open.ts';
export type {
  KernelDeclaration,
  KernelImage,
  KernelsToLoad,
  LaunchNumbers,
  LoadedKernel,
} from './device/own-kernels/declarations.ts';
export { type PhiloxIndices, philoxIndices } from './device-rows/head.ts';
export type { DeviceRingOptions, RowsKept } from './device-rows/options.ts';
export type { RingStatistics } from './device-rows/statistics.ts';
export type { ArrayOf, DType, DTypeOf, TypedArray } from './dtype.ts';
export { DeviceError, type DeviceErrorDetail, type ErrorCode, PipelineError } from './errors.ts';
export { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from './float16.ts';
export type { RunOptions } from './pipeline/autonomous.ts';
export type { AveragingOptions } from './pipeline/averaging.ts';
export type { Batch, Extras } from './pipeline/batches.ts';
export type { CaptureContext, CaptureFunction, CaptureOptions } from './pipeline/capture.ts';
export type { PipelineEvents, Tick } from './pipeline/history.ts';
export type { PipelineNow, SlotNow } from './pipeline/inspect.ts';
export type { TransferManifest } from './pipeline/manifest.ts';
export type { PipelineOptions, Placement, TraceOptions, TrajectoryPipelineOptions } from './pipeline/options.ts';
export { ReplayPipeline } from './pipeline/replay-pipeline.ts';
export type { StageName, StageTimes, Summary } from './pipeline/summary.ts';
export { Random } from './random.ts';
export type { Role } from './ring/slot.ts';
export { type Hindsight, type HindsightOptions, hindsight } from './trajectories/hindsight.ts';
export {
  type Normalise,
  type PrioritizedOptions,
  type PrioritizedSampler,
  prioritized,
  prioritizedIndices,
} from './trajectories/prioritized.ts';
export type { PlacesRead } from './trajectories/reader.ts';
export type { BatchFields, FieldColumns, SampleOf, TransitionSample, WindowSample } from './trajectories/samples.ts';
export type {
  DTypeOfStep,
  Flags,
  GivenOf,
  Observations,
  StepField,
  StepFieldSpec,
  StepFields,
  StepLayout,
  Steps,
} from './trajectories/schema.ts';
export type { SharedTrajectoryBuffer } from './trajectories/shared-steps.ts';
export { TrajectoryBuffer } from './trajectories/trajectory-buffer.ts';
export type { TrajectoryWriter } from './trajectories/trajectory-writer.ts';
export type { Stack, TransitionsOptions, View, WindowsOptions } from './trajectories/views.ts';
export type { EndingName } from './wait/ending.ts';
export type { WaitOptions } from './wait/wait.ts';
