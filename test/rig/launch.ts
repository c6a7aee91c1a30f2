/**
 * Launches that TypeScript would reject: their names and lists are known only when the test runs,
 * or are wrong on purpose.
 */
import type { Stream } from '../../src/device/device.ts';

export function launchAnything(stream: Stream, kernel: string, args: object): void {
  (stream.launch as (kernel: string, args: object) => void).call(stream, kernel, args);
}
