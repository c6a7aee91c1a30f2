/**
 * A scripted server, which answers as a test says. It can be an old server, a silent one or one
 * that rejects.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** Replies by name of the command. null: no reply. 'end': the server closes the connection. */
export type Answers = Readonly<
  Record<string, string | null | ((args: readonly string[]) => string | null)>
>;

const bulk = (text: string) => `$${text.length}\r\n${text}\r\n`;
/**
 * Returns a server's reply to HELLO. A server that speaks version 2 of the protocol sends a list
 * instead.
 */
export const hello = (server: string, version: string): string =>
  `%3\r\n${bulk('server')}${bulk(server)}${bulk('version')}${bulk(version)}${bulk('proto')}:3\r\n`;
const USUAL: Answers = {
  HELLO: hello('redis', '7.0.0'),
  INFO: bulk('run_id:odd\r\n'),
  PING: '+PONG\r\n',
};

export class OddServer {
  /** number of connections accepted so far */
  taken = 0;
  answers: Answers;
  readonly #server = createServer((socket) => this.#serve(socket));
  readonly #sockets = new Set<Socket>();

  private constructor(answers: Answers) {
    this.answers = answers;
  }
  static async open(answers: Answers): Promise<OddServer> {
    const server = new OddServer(answers);
    await once(server.#server.listen(0, '127.0.0.1'), 'listening');
    return server;
  }
  get url(): string {
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }
  get open(): number {
    return this.#sockets.size;
  }
  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #serve(socket: Socket): void {
    this.taken++;
    this.#sockets.add(socket);
    let text = '';
    socket.setEncoding('latin1').on('data', (piece) => {
      text += piece;
      for (let args = command(text); args !== null; args = command(text)) {
        text = text.slice(args.length);
        const answer = { ...USUAL, ...this.answers }[args.words[0]!] ?? null;
        const said = typeof answer === 'function' ? answer(args.words) : answer;
        if (said === 'end') socket.destroy();
        else if (said !== null)
          socket.write(args.words[1] === '2' ? said.replace(/^%3/, '*6') : said);
      }
    });
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
  }
}

/** Returns the first command of a text, or null if it is incomplete. */
function command(text: string): { words: string[]; length: number } | null {
  const count = /^\*(\d+)\r\n/.exec(text);
  if (count === null) return null;
  const words: string[] = [];
  let at = count[0].length;
  for (let left = Number(count[1]); left > 0; left--) {
    const found = /^\$(\d+)\r\n/.exec(text.slice(at));
    if (found === null) return null;
    const from = at + found[0].length;
    const to = from + Number(found[1]);
    if (text.length < to + 2) return null;
    words.push(text.slice(from, to));
    at = to + 2;
  }
  return { words, length: at };
}
