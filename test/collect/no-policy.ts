/** A policy's module whose function returns an object without load(). */
export default () => ({ act: (_: Float32Array, n: number) => new Float32Array(n) });
