/**
 * Checks the model of replay rows that are copied to a device (device-rows.ts). The rules hold in
 * every interleaving of small cases. Each rule broken on purpose is caught.
 */
import { itAll, itLong } from '../rig/setting.ts';
import {
  type DeviceRowsMutation,
  type DeviceRowsSetup,
  deviceRowsProtocol,
} from './device-rows.ts';
import { proofsOf } from './proofs.ts';

const inWords = ({ capacity, places, guard, most, rows, ticks, death }: DeviceRowsSetup) =>
  `${rows} rows through ${capacity} on the host and ${places} on the device, ${guard} guarded, ${most} a copy, ${ticks} ticks${death ? ', with a death' : ''}: no draw overlaps a copy, and every row arrives or is reported lost`;
const { holds, caught } = proofsOf<DeviceRowsMutation, DeviceRowsSetup>(
  deviceRowsProtocol,
  inWords,
);

/**
 * `small` has a device as large as the host's buffer, `wide` has a smaller one. Spans have one row
 * or two, and the guard is used up in some of the setups only.
 */
const small: DeviceRowsSetup = { capacity: 3, places: 3, guard: 1, most: 1, rows: 5, ticks: 2 };
const wide: DeviceRowsSetup = { ...small, capacity: 5, rows: 6 };
const long: DeviceRowsSetup = { ...small, rows: 7 };

describe('model of replay rows that are copied to a device', function () {
  this.timeout(300_000);

  holds(small);
  holds({ ...small, death: true });
  holds(wide);
  holds({ ...small, rows: 6, ticks: 3, death: true }, itLong);
  holds({ ...small, capacity: 2, places: 2, rows: 6, ticks: 3, death: true }, itLong);
  holds({ ...small, capacity: 4, places: 3, most: 2, rows: 6, death: true }, itAll);

  caught('visible before the event', 'DeviceRows-1', small);
  caught('reserved not looked at', 'DeviceRows-1', small);
  caught('reserved looked at before the event', 'DeviceRows-1', small);
  caught('the guard off by one', 'DeviceRows-1', wide);
  caught('heads not looked at', 'DeviceRows-1', wide);
  caught('only the newest head looked at', 'DeviceRows-1', wide);
  caught('a launched head counts as spent', 'DeviceRows-1', wide);
  caught('published before the copies are ordered', 'DeviceRows-1', small);
  caught('low left behind a gap', 'DeviceRows-1', long, itAll);
  caught('a head while a span goes over it', 'DeviceRows-1', long, itAll);
  caught('where copies go known by what is published', 'DeviceRows-1', {
    ...small,
    capacity: 2,
    places: 2,
    death: true,
  });
  caught('a head checked by what is visible later', 'DeviceRows-1', long, itAll);
  // When the device finishes this head, it marks the slot's next head as spent. Nothing frees the
  // slot after that.
  caught('a head written anew before it is spent', 'deadlock', { ...wide, ticks: 3 });
  caught('a successor behind what was only ordered', 'DeviceRows-1', { ...small, death: true });
  caught('done before what was found', 'DeviceRows-1', small);
});
