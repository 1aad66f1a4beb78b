// Perfetto's trace_processor as a process: standard input goes to its RPC channel, its replies go to standard output.
//
//   node trace_processor.mjs FOLDER      the folder of Perfetto's web build with engine_bundle.js and trace_processor.wasm
//
// The bytes both ways are a TraceProcessorRpcStream (protos/perfetto/trace_processor/trace_processor.proto of Perfetto).
// engine_bundle.js is written for a worker of a browser; here it is given the few names of one that it asks for.
import fs from "node:fs";
import path from "node:path";

const folder = process.argv[2];

/// A worker's synchronous request, of which every answer is a file of the folder.
class FolderRequest {
  open(method, url) {
    this.name = path.basename(url);
  }
  send() {
    const bytes = fs.readFileSync(path.join(folder, this.name));
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  }
}

/// All of it, also where the reader of a pipe is slow.
function write(bytes) {
  for (let written = 0; written < bytes.length;) {
    try {
      written += fs.writeSync(1, bytes, written);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}

const worker = { location: { href: "file:///engine_bundle.js" } };
const channel = { onmessage: null, postMessage: write };
const log = { log: console.error, warn: console.error, error: console.error };
const code = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
const names = ["self", "process", "WorkerGlobalScope", "XMLHttpRequest", "location", "console"];
new Function(...names, code)(worker, undefined, class {}, FolderRequest, worker.location, log);
worker.onmessage({ data: channel });
setImmediate(() => process.stdin.on("data", (bytes) => channel.onmessage({ data: new Uint8Array(bytes) })));
