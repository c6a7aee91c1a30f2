/** What a test hears of process warnings. */

/** Process warnings with this name while `act` runs. */
export async function warningsOf(name: string, act: () => Promise<unknown>): Promise<string[]> {
  const heard: string[] = [];
  const hear = (warning: Error) => warning.name === name && void heard.push(warning.message);
  process.on('warning', hear);
  try {
    await act();
    // They are emitted in a turn of their own.
    await new Promise(setImmediate);
  } finally {
    process.off('warning', hear);
  }
  return heard;
}
