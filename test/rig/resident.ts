/**
 * How a process is started of which what is resident is to be what is held. V8 doubles its space
 * for new objects whenever it likes, by 4 MiB at a time, unless it is told its size; and glibc
 * keeps what was freed, a few hundred KiB of each thread that compiles, unless it is told to give
 * it back.
 */
export const residentFlags = ['--expose-gc', '--min-semi-space-size=2', '--max-semi-space-size=2'];
export const residentEnvironment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  MALLOC_TRIM_THRESHOLD_: '65536',
  MALLOC_TOP_PAD_: '0',
});
