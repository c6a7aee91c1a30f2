/**
 * `hotslot/formats`: tensors in files that other frameworks read (safetensors, numpy's npy and
 * npz), and policies as ONNX models.
 */
export { decodeNpy, encodeNpy } from '../base/arrays/npy.ts';
export { type ReadNpzOptions, readNpz, writeNpz } from '../base/arrays/npz.ts';
export {
  decodeSafetensors,
  encodeSafetensors,
  type ReadSafetensorsOptions,
  readSafetensors,
  type Safetensors,
  writeSafetensors,
} from '../base/arrays/safetensors.ts';
export type { NamedTensors, TensorData } from '../base/arrays/tensors.ts';
export { encodeOnnx, type OnnxOptions } from '../learn/onnx/onnx.ts';
