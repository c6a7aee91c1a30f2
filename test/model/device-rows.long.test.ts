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

  caught('poll makes rows visible before the event of their copies', 'DeviceRows-1', small);
  caught('poll does not check `reserved`', 'DeviceRows-1', small);
  caught('poll reads `reserved` before the event fires', 'DeviceRows-1', small);
  caught('pack enqueues copies one row past the guard', 'DeviceRows-1', wide);
  caught('pack enqueues copies without checking the heads', 'DeviceRows-1', wide);
  caught('pack checks only the newest head', 'DeviceRows-1', wide);
  caught('pack counts a launched head as spent', 'DeviceRows-1', wide);
  caught('pack publishes the record before it enqueues the copies', 'DeviceRows-1', small);
  caught('poll does not raise `low` after a gap', 'DeviceRows-1', long, itAll);
  caught('pack writes a head during copies over its rows', 'DeviceRows-1', long, itAll);
  caught('pack ignores copies that have no published record', 'DeviceRows-1', {
    ...small,
    capacity: 2,
    places: 2,
    death: true,
  });
  caught('pack checks a head against a newer `visible`', 'DeviceRows-1', long, itAll);
  // When the device finishes this head, it marks the slot's next head as spent. Nothing frees the
  // slot after that.
  caught('pack overwrites a head before it is spent', 'deadlock', { ...wide, ticks: 3 });
  caught('a successor skips rows that were only enqueued', 'DeviceRows-1', {
    ...small,
    death: true,
  });
  caught('poll counts a span as done before it records the rows', 'DeviceRows-1', small);
});
