/**
 * The device for tests of everything above devices: the CPU device, or the one that
 * HOTSLOT_TEST_DEVICE names.
 */
export const TESTED = process.env.HOTSLOT_TEST_DEVICE ?? 'host:0';
/** Whether it is the CPU device, which has ways of copying that the other devices lack. */
export const ON_HOST = TESTED.startsWith('host');
