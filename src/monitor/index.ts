/** `hotslot/monitor`: a training watched from outside. */
export type { ListenOptions } from './listening.ts';
export { type TensorBoardOptions, type TensorBoardWriter, tensorBoard } from './tensorboard.ts';
