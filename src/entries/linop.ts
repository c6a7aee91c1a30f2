/** `hotslot/linop`: named linear operators that move tensors between devices. */
export { DeviceSpec } from '../extras/linop/device-spec.ts';
export { Chain, type ForwardOptions, Identity, NamedLinop } from '../extras/linop/named-linop.ts';
export type { Answer, NamedShape, Operand } from '../extras/linop/operand.ts';
export { ToDevice } from '../extras/linop/to-device.ts';
