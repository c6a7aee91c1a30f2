/** A network that misbehaves on demand, between a client and a server of this machine. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout } from 'node:timers/promises';

export class BadNetwork {
  /** ms that every piece is late */
  delayMs = 0;
  /** of each direction */
  bytesPerSecond = Infinity;
  /** Connections beyond so many are taken, and nothing goes through them. */
  most = Infinity;
  /** port of the server that new connections go to */
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
  /** Every connection ends at once; new ones are taken. */
  cut(): void {
    this.#muted = false;
    for (const socket of this.#sockets) socket.destroy();
  }
  /**
   * Connections end when so many bytes more have gone from clients to the server, or back: in the
   * middle of a message, say.
   */
  cutAfter(bytes: number, back = false): void {
    this.#left = bytes;
    this.#leftBack = back;
  }
  /**
   * What the server says from now on arrives nowhere; what clients say takes effect. Until the next
   * cut().
   */
  mute(): void {
    this.#muted = true;
  }
  /**
   * Connections stay, new ones are taken, and nothing goes through: the other end seems to be there
   * and is silent.
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
