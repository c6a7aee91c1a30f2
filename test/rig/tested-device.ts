/**
 * The device that tests of everything above devices run on: the host device, or the one
 * HOTSLOT_TEST_DEVICE names.
 */
export const TESTED = process.env.HOTSLOT_TEST_DEVICE ?? 'host:0';
/** The host device has ways of copying that others have not. */
export const ON_HOST = TESTED.startsWith('host');
