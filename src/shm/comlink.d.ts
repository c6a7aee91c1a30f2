/** Types of comlink's adapter for Node, the only module of comlink that has no types. */
declare module 'comlink/dist/esm/node-adapter.mjs' {
  import type { MessagePort } from 'node:worker_threads';
  import type { Endpoint } from 'comlink';

  type Port = Pick<NodeJS.EventEmitter, 'on' | 'off'> & Pick<MessagePort, 'postMessage'>;
  export default function nodeEndpoint(port: MessagePort | Port): Endpoint;
}
