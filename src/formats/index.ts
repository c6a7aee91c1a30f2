/** `hotslot/formats`: tensors in files that other frameworks read, safetensors and numpy's npy and npz; policies as ONNX models. */
export { decodeNpy, encodeNpy } from './npy.ts';
export { type ReadNpzOptions, readNpz, writeNpz } from './npz.ts';
export { encodeOnnx, type OnnxOptions } from './onnx/onnx.ts';
export {
  decodeSafetensors,
  encodeSafetensors,
  type ReadSafetensorsOptions,
  readSafetensors,
  type Safetensors,
  writeSafetensors,
} from './safetensors.ts';
export type { NamedTensors, TensorData } from './tensors.ts';
