/** A proxy between clients and a server of this machine that delays, drops and cuts on demand. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

export class BadNetwork {
  /** delay of every piece in milliseconds */
  delayMs = 0;
  /** limit of each direction */
  bytesPerSecond = Infinity;
  /** The proxy accepts connections beyond this number, but passes nothing through them. */
  most = Infinity;
  /** port of the server for new connections */
  target: number;
  readonly #server = createServer((client) => this.#join(client));
  readonly #sockets = new Set<Socket>();
  #left = Infinity;
  #leftBack = false;
  #muted = false;
  #stalled: Promise<void> | null = null;
  #thaw = () => {};

  private constructor(target: number) {
    this.target = target;
  }
  static async open(target: number): Promise<BadNetwork> {
    const network = new BadNetwork(target);
    await once(network.#server.listen(0, '127.0.0.1'), 'listening');
    return network;
  }
  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
  get connections(): number {
    return this.#sockets.size / 2;
  }
  /** Ends all connections. New ones are accepted. */
  cut(): void {
    this.#muted = false;
    for (const socket of this.#sockets) socket.destroy();
  }
  /**
   * Ends all connections after this number of further bytes to the server, or with `back` from it.
   * The cut may be inside of a message.
   */
  cutAfter(bytes: number, back = false): void {
    this.#left = bytes;
    this.#leftBack = back;
  }
  /** Drops all replies until the next cut(). Commands of clients still take effect. */
  mute(): void {
    this.#muted = true;
  }
  /**
   * Passes nothing through, but keeps connections and accepts new ones. The other side seems
   * present and silent.
   */
  stall(): void {
    this.#stalled ??= new Promise((resolve) => {
      this.#thaw = resolve;
    });
  }
  flow(): void {
    this.#stalled = null;
    this.#thaw();
  }
  async close(): Promise<void> {
    this.#server.close();
    this.cut();
    this.flow();
    if (this.#server.listening) await once(this.#server, 'close');
  }

  #join(client: Socket): void {
    if (this.connections >= this.most) {
      this.#sockets.add(client);
      client
        .resume()
        .on('error', () => {})
        .on('close', () => this.#sockets.delete(client));
      return;
    }
    const server = connect(this.target, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => {});
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
      from.on('data', (piece) => this.#pass(piece, from, to, from === client));
    }
  }
  async #pass(piece: Buffer, from: Socket, to: Socket, up: boolean): Promise<void> {
    from.pause();
    const wait = this.delayMs + (1000 * piece.length) / this.bytesPerSecond;
    if (wait > 0) await setTimeout(wait);
    await this.#stalled;
    if (this.#muted && !up) {
      from.resume();
      return;
    }
    const counts = up !== this.#leftBack;
    if (counts && piece.length > this.#left) {
      to.end(piece.subarray(0, this.#left), () => this.cut());
      this.#left = Infinity;
      return;
    }
    if (counts) this.#left -= piece.length;
    if (!to.write(piece))
      await Promise.race([once(to, 'drain'), once(to, 'close')]).catch(() => {});
    from.resume();
  }
}
