// What Perfetto's own trace processor finds in a trace, for the test that compares it with what Pario recorded.
//
// node perfetto.js ENGINE TRACE SQL...
//
// ENGINE is the directory of a Perfetto UI with engine_bundle.js and the trace processor as WebAssembly. The bundle is made for
// a worker of a browser, of which this is as much as it needs. Prints the rows of each query, fields separated by tabs, with an
// empty line behind the rows of a query. The messages are those of Perfetto's trace_processor.proto.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

// The bundle is one line of a hundred kilobytes, which nobody wants to see.
process.on('uncaughtException', (error) => {
  console.error(`perfetto.js: ${error.message ?? error}`);
  process.exit(1);
});
const [engine, trace, ...queries] = process.argv.slice(2);

// Of the wire format of protocol buffers: numbers and bytes.
function varint(number) {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
}
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
function bytes(field, value) {
  const content = Buffer.from(value);
  return Buffer.concat([varint((field << 3) | 2), varint(content.length), content]);
}

function* varints(buffer) {
  for (let at = 0; at < buffer.length; ) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) break;
    }
    yield [BigInt.asIntN(64, value), at];
  }
}

// The fields of a message, as [number, value].
function fields(buffer) {
  const found = [];
  for (let at = 0; at < buffer.length; ) {
    const next = () => {
      const [value, used] = varints(buffer.subarray(at)).next().value;
      at += used;
      return Number(value);
    };
    const key = next();
    if ((key & 7) === 0) {
      found.push([key >> 3, next()]);
    } else if ((key & 7) === 2) {
      const size = next();
      found.push([key >> 3, buffer.subarray(at, at + size)]);
      at += size;
    } else {
      throw new Error(`a field of type ${key & 7} is not expected`);
    }
  }
  return found;
}
const all = (message, field) => message.filter(([key]) => key === field).map(([, value]) => value);

const APPEND = 1, FINALIZE = 2, QUERY = 3;
const NULL = 1n, VARINT = 2n, FLOAT = 3n, STRING = 4n;

// A worker: the bundle hears on a port, and answers there.
const answers = [];
const port = { postMessage: (data) => answers.push(Buffer.from(data)) };
class XMLHttpRequest {
  open(_, name) { this.name = name; }
  send() { this.response = new Uint8Array(fs.readFileSync(path.join(engine, path.basename(this.name)))).buffer; }
}
const scope = {
  console: { log: console.error, warn: console.error, error: console.error },
  importScripts() {}, location: { href: 'engine_bundle.js' },
  XMLHttpRequest, TextDecoder, TextEncoder, performance, crypto, setTimeout, URL,
};
scope.self = scope;
scope.WorkerGlobalScope = Object;
const worker = vm.createContext(scope);
const TheirArray = vm.runInContext('Uint8Array', worker);
vm.runInContext(fs.readFileSync(path.join(engine, 'engine_bundle.js'), 'utf8'), worker);

let sequence = 0;
// Sends a request; the answers to it. They come before the call returns.
function call(method, ...parts) {
  answers.length = 0;
  const request = Buffer.concat([number(1, sequence++), number(2, method), ...parts]);
  port.onmessage({ data: new TheirArray(bytes(1, request)) });
  return all(fields(Buffer.concat(answers)), 1).map((message) => {
    const answer = fields(message);
    const fatal = all(answer, 5);
    if (fatal.length) throw new Error(`the trace processor gave up: ${fatal[0]}`);
    return answer;
  });
}

function query(sql) {
  const rows = [];
  let width = 0;
  for (const answer of call(QUERY, bytes(103, bytes(1, sql)))) {
    const result = fields(all(answer, 203)[0]);
    const error = all(result, 2).map(String).join('');
    if (error) throw new Error(`${sql}: ${error}`);
    width = width || all(result, 1).length;
    for (const batch of all(result, 3).map(fields)) {
      const cells = all(batch, 1).flatMap((packed) => [...varints(packed)]).map(([cell]) => cell);
      const numbers = all(batch, 2).flatMap((packed) => [...varints(packed)]).map(([value]) => value);
      const floats = all(batch, 3).flatMap((packed) => [...new Float64Array(new Uint8Array(packed).buffer)]);
      const strings = all(batch, 5).flatMap((text) => text.toString().split('\0'));
      rows.push(...cells.map((cell) => {
        switch (cell) {
          case NULL: return '';
          case VARINT: return numbers.shift();
          case FLOAT: return floats.shift();
          case STRING: return strings.shift();
          default: throw new Error(`a cell of type ${cell} is not expected`);
        }
      }));
    }
  }
  for (let at = 0; at < rows.length; at += width) console.log(rows.slice(at, at + width).join('\t'));
  console.log();
}

setImmediate(() => {
  scope.onmessage({ data: port });
  for (let at = 0, data = fs.readFileSync(trace); at < data.length; at += 1 << 20) {
    const [answer] = call(APPEND, bytes(101, data.subarray(at, at + (1 << 20))));
    const error = all(fields(all(answer, 201)[0]), 2).map(String).join('');
    if (error) throw new Error(`${trace} is not taken: ${error}`);
  }
  call(FINALIZE);
  queries.forEach(query);
});
