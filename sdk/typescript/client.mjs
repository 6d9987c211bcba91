// Connects as the part says, with the SDK that it names, and hides the differences between their generations.
//
// Returns the `client`, a `call(params, options)`, the negotiated `revision`, a `close()`, and what the server sent apart
// from answers: `log`, `questions` and `changes` of the tool list.

import { createRequire } from "node:module";

export async function connect(part) {
  const require = createRequire(`${part.sdk}/`);
  const log = []; // received `notifications/message`
  const questions = []; // questions of the server to the user
  const elicited = async (request) => {
    questions.push(request.params.message);
    return { action: "accept", content: { answer: "blue" } };
  };
  const logged = ({ params }) => void log.push(params);
  const changes = []; // one entry for each `notifications/tools/list_changed`
  const changed = () => void changes.push(true);

  const generation = part.package.startsWith("sdk-1.") ? one : two;
  const { client, transport, call } = generation(part, require, logged, elicited, changed);

  // Early SDKs do not expose the negotiated revision, so it is read from the answer to `initialize` as that passes.
  let negotiated;
  let receive;
  Object.defineProperty(transport, "onmessage", {
    get: () => receive,
    set: (next) => {
      receive = next && ((message, ...rest) => {
        negotiated ??= message.result?.protocolVersion;
        return next.call(transport, message, ...rest);
      });
    },
  });
  await client.connect(transport);
  const revision = client.getNegotiatedProtocolVersion?.() ?? negotiated;

  const close = async () => {
    if (part.url && revision < "2026-07-28") await transport.terminateSession?.();
    await client.close();
  };
  return { client, call, revision, close, log, questions, changes };
}

// A client of the 1.x generations: `initialize`, schemas as handler keys, options as third argument.
function one(part, require, logged, elicited, changed) {
  const { Client } = require(`${part.package}/client/index.js`);
  const types = require(`${part.package}/types.js`);
  const capabilities = part.revision >= "2025-06-18" ? { elicitation: {} } : {};
  const client = new Client({ name: "script", version: "1" }, { capabilities });
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, logged);
  client.setNotificationHandler(types.ToolListChangedNotificationSchema, changed);
  if (capabilities.elicitation) client.setRequestHandler(types.ElicitRequestSchema, elicited);
  const { StreamableHTTPClientTransport } = require(`${part.package}/client/streamableHttp.js`);
  const { StdioClientTransport } = require(`${part.package}/client/stdio.js`);
  const transport = part.url ? new StreamableHTTPClientTransport(new URL(part.url)) : new StdioClientTransport(part);
  return { client, transport, call: (params, options) => client.callTool(params, undefined, options) };
}

// A client of the 2.x packages: method names as handler keys, both eras of the protocol.
function two(part, require, logged, elicited, changed) {
  const { Client, StreamableHTTPClientTransport } = require(part.package);
  const { StdioClientTransport } = require(`${part.package}/stdio`);
  const options = {
    capabilities: { elicitation: {} },
    versionNegotiation: { mode: part.probe ? "auto" : "legacy" },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: changed } },
  };
  const client = new Client({ name: "script", version: "1" }, options);
  client.setNotificationHandler("notifications/message", logged);
  client.setRequestHandler("elicitation/create", elicited);
  const transport = part.url ? new StreamableHTTPClientTransport(new URL(part.url)) : new StdioClientTransport(part);
  return { client, transport, call: (params, options) => client.callTool(params, options) };
}
