/** `hotslot/linop`: named linear operators that move tensors between devices, ordered by events. */
export { DeviceSpec } from './device-spec.ts';
export { Chain, type ForwardOptions, Identity, NamedLinop } from './named-linop.ts';
export type { Answer, NamedShape, Operand } from './operand.ts';
export { ToDevice } from './to-device.ts';
