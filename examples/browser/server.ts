/** Serves a few files over HTTP to this machine only. It reads files and never writes them. */
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import { Refused } from '../command-line.ts';

const HOST = '127.0.0.1';
const here = new URL('../../../examples/browser/', import.meta.url);
const runtime = new URL('../../../node_modules/onnxruntime-web/dist/', import.meta.url);
const script = 'text/javascript; charset=utf-8';

/** Returns the files that the server offers, by path, each with its content type. */
const filesFor = (
  policy: string,
): Readonly<Record<string, readonly [file: string, type: string]>> => ({
  '/': [fileURLToPath(new URL('index.html', here)), 'text/html; charset=utf-8'],
  '/style.css': [fileURLToPath(new URL('style.css', here)), 'text/css; charset=utf-8'],
  '/page.mjs': [fileURLToPath(new URL('page.mjs', here)), script],
  '/drawing.mjs': [fileURLToPath(new URL('drawing.mjs', here)), script],
  // The page and the training use the same file of physics.
  '/cart-pole-physics.js': [
    fileURLToPath(new URL('../environments/cart-pole-physics.js', import.meta.url)),
    script,
  ],
  '/policy.onnx': [policy, 'application/octet-stream'],
  '/ort.mjs': [fileURLToPath(new URL('ort.wasm.bundle.min.mjs', runtime)), script],
  '/ort.wasm': [fileURLToPath(new URL('ort-wasm-simd-threaded.wasm', runtime)), 'application/wasm'],
});

const always = {
  'cache-control': 'no-cache',
  'x-content-type-options': 'nosniff',
  // Allows only files of this server, and the compilation of WebAssembly.
  'content-security-policy':
    "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:",
};

/**
 * Serves the page. Port 0 stands for any free port. Throws Refused if the port is not available.
 */
export async function serve(
  policy: string,
  port: number,
): Promise<{ server: Server; address: string }> {
  const files = filesFor(policy);
  const server = createServer((request, response) => {
    answer(files, request, response).catch((error: Error) => {
      // The file may have been deleted. The response then contains the error, which the page shows.
      if (!response.headersSent)
        response.writeHead(500, { ...always, 'content-type': 'text/plain' });
      response.end(error.message);
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(new Refused(`--port ${port} cannot be had: ${error.message}`)),
    );
    server.listen(port, HOST, resolve);
  });
  const { port: had } = server.address() as { port: number };
  return { server, address: `http://${HOST}:${had}/` };
}

async function answer(
  files: ReturnType<typeof filesFor>,
  { method, url = '/' }: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const refuse = (status: number, text: string, more: Record<string, string> = {}) =>
    response.writeHead(status, { ...always, ...more, 'content-type': 'text/plain' }).end(text);
  if (method !== 'GET' && method !== 'HEAD') {
    refuse(405, 'this server only reads', { allow: 'GET, HEAD' });
    return;
  }
  const path = url.split('?')[0] as string;
  const found = Object.hasOwn(files, path) ? files[path] : undefined;
  if (!found) {
    refuse(404, 'there is no such file');
    return;
  }
  const [file, type] = found;
  const { size } = await stat(file);
  response.writeHead(200, { ...always, 'content-type': type, 'content-length': size });
  if (method === 'HEAD') response.end();
  else
    createReadStream(file)
      .on('error', () => response.destroy())
      .pipe(response);
}
