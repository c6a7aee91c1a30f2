/** A module that exports no collector. */
export const nothing = 'this module exports no factory';
