/** Encodes an image as a PNG file with 8 bits each of red, green and blue. */
import { promisify } from 'node:util';
import { crc32, deflate } from 'node:zlib';

export type Colour = readonly [red: number, green: number, blue: number];

/** Returns a mixture of two colors. `part` is the fraction of the second. */
export const mixed = (one: Colour, other: Colour, part: number): Colour => [
  one[0] + part * (other[0] - one[0]),
  one[1] + part * (other[1] - one[1]),
  one[2] + part * (other[2] - one[2]),
];

export class Image {
  readonly width: number;
  readonly height: number;
  readonly #pixels: Uint8Array;

  constructor(width: number, height: number, colour: Colour) {
    this.width = width;
    this.height = height;
    this.#pixels = new Uint8Array(3 * width * height);
    this.fill(0, 0, width, height, colour);
  }

  /** Fills a rectangle, given by its top left corner. All of it must be inside of the image. */
  fill(x: number, y: number, width: number, height: number, [red, green, blue]: Colour): void {
    for (let row = y; row < y + height; row++) {
      for (let at = 3 * (row * this.width + x); at < 3 * (row * this.width + x + width); ) {
        this.#pixels[at++] = red;
        this.#pixels[at++] = green;
        this.#pixels[at++] = blue;
      }
    }
  }

  async png(): Promise<Buffer> {
    const row = 3 * this.width;
    // Each row begins with the number of its filter. 0 means no filter.
    const rows = Buffer.alloc((row + 1) * this.height);
    for (let y = 0; y < this.height; y++)
      rows.set(this.#pixels.subarray(y * row, (y + 1) * row), y * (row + 1) + 1);
    const header = Buffer.alloc(13);
    header.writeUInt32BE(this.width, 0);
    header.writeUInt32BE(this.height, 4);
    header.set([8, 2], 8); // bits per channel; RGB
    return Buffer.concat([
      Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
      chunk('IHDR', header),
      chunk('IDAT', await promisify(deflate)(rows)),
      chunk('IEND', Buffer.alloc(0)),
    ]);
  }
}

function chunk(kind: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(kind, 'latin1'), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
