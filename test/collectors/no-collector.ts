/** A module that is no collector. */
export const nothing = 'this module exports no factory';
