/**
 * `hotslot/monitor`: the monitor server and TensorBoard files, which show a training's progress.
 */
export type { ListenOptions } from '../net/monitor/listening.ts';
export type {
  MonitorOptions,
  MonitorParts,
  WatchedCheckpoint,
  WatchedSave,
} from '../net/monitor/parts.ts';
export { type Monitor, serveMonitor } from '../net/monitor/serve.ts';
export {
  type TensorBoardOptions,
  type TensorBoardWriter,
  tensorBoard,
} from '../net/monitor/tensorboard.ts';
