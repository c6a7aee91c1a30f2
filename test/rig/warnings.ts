/** Collects the process warnings of a test. */

/** Returns the process warnings with this name that are emitted while `act` runs. */
export async function warningsOf(name: string, act: () => Promise<unknown>): Promise<string[]> {
  const heard: string[] = [];
  const hear = (warning: Error) => warning.name === name && void heard.push(warning.message);
  process.on('warning', hear);
  try {
    await act();
    // Warnings are emitted in a later turn of the event loop.
    await new Promise(setImmediate);
  } finally {
    process.off('warning', hear);
  }
  return heard;
}
