/** `hotslot/monitor`: a training watched from outside. */
export type { ListenOptions } from './listening.ts';
export type { MonitorOptions, MonitorParts, WatchedCheckpoint, WatchedSave } from './parts.ts';
export { type Monitor, serveMonitor } from './serve.ts';
export { type TensorBoardOptions, type TensorBoardWriter, tensorBoard } from './tensorboard.ts';
