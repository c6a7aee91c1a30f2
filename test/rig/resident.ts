/**
 * Flags and environment of a process whose resident memory must equal what it uses. Without them V8
 * doubles its space for new objects at any time, by 4 MiB. And glibc would keep freed memory, a few
 * hundred KiB for each thread that compiles.
 */
export const residentFlags = ['--expose-gc', '--min-semi-space-size=2', '--max-semi-space-size=2'];
export const residentEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  MALLOC_TRIM_THRESHOLD_: '65536',
  MALLOC_TOP_PAD_: '0',
});
