// The script that every SDK plays against greenroom, as a TypeScript client plays it. script.py and the Rust tests
// do the same steps; ../expected.jsonl says what each of them must see.
//
// The one argument is the part to play, as JSON: `sdk` (where the SDKs are installed), `package` (which of them),
// `revision` (what must be negotiated), `probe` (whether to ask `server/discover` first), `gate` (where files can be
// made that hold calls), and `url`, or `command`, `args`, `env`, `cwd`. It prints one line of JSON for each step and
// ends with 0; anything unexpected is an exception.

import { existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { setTimeout as pause } from "node:timers/promises";

const part = JSON.parse(process.argv[2]);
const modern = part.revision >= "2026-07-28";
const require = createRequire(`${part.sdk}/`);

const log = []; // what arrived of `notifications/message`
const questions = []; // what the server wanted to know of the user

function elicited(request) {
  questions.push(request.params.message);
  return { action: "accept", content: { answer: "blue" } };
}

// A client of the 1.x generations: `initialize`, schemas as handler keys, options as third argument.
function one() {
  const { Client } = require(`${part.package}/client/index.js`);
  const types = require(`${part.package}/types.js`);
  const capabilities = part.revision >= "2025-06-18" ? { elicitation: {} } : {};
  const client = new Client({ name: "script", version: "1" }, { capabilities });
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void log.push(params));
  if (capabilities.elicitation) client.setRequestHandler(types.ElicitRequestSchema, async (request) => elicited(request));
  const transport = () => {
    if (part.url) {
      const { StreamableHTTPClientTransport } = require(`${part.package}/client/streamableHttp.js`);
      return new StreamableHTTPClientTransport(new URL(part.url));
    }
    const { StdioClientTransport } = require(`${part.package}/client/stdio.js`);
    return new StdioClientTransport(part);
  };
  return { client, transport: transport(), call: (params, options) => client.callTool(params, undefined, options) };
}

// A client of the 2.x packages: method names as handler keys, both eras of the protocol.
function two() {
  const { Client, StreamableHTTPClientTransport } = require(part.package);
  const { StdioClientTransport } = require(`${part.package}/stdio`);
  const options = { capabilities: { elicitation: {} }, versionNegotiation: { mode: part.probe ? "auto" : "legacy" } };
  const client = new Client({ name: "script", version: "1" }, options);
  client.setNotificationHandler("notifications/message", ({ params }) => void log.push(params));
  client.setRequestHandler("elicitation/create", async (request) => elicited(request));
  const transport = part.url ? new StreamableHTTPClientTransport(new URL(part.url)) : new StdioClientTransport(part);
  return { client, transport, call: (params, options) => client.callTool(params, options) };
}

const { client, transport, call: callTool } = part.package.startsWith("sdk-1.") ? one() : two();

// Early SDKs keep what was negotiated to themselves, so the answer to `initialize` is looked at as it passes.
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

const say = (step, facts) => console.log(JSON.stringify({ step, ...facts }));
const skip = (step, feature) => say(step, { skipped: `${part.revision} has no ${feature}` });
const call = (name, args, options, meta) => callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, options);
const text = async (...args) => (await call(...args)).content[0].text;
const json = async (...args) => JSON.parse(await text(...args));

async function until(what, look) {
  for (let tries = 0; !look(); tries++) {
    if (tries > 6000) throw new Error(`never saw ${what}`);
    await pause(5);
  }
}

await client.connect(transport);
const revision = client.getNegotiatedProtocolVersion?.() ?? negotiated;
say("connect", { revision, server: client.getServerVersion()?.name });

const { tools } = await client.listTools();
const parameters = (tool) => Object.keys(tool.inputSchema.properties ?? {}).sort();
say("tools", {
  echo: parameters(tools.find((tool) => tool.name === "echo")),
  own: tools.map((tool) => tool.name).filter((name) => name.includes("session")).sort(),
  without_session_id: tools.filter((tool) => !parameters(tool).includes("sessionId")).map((tool) => tool.name),
});

await call("set", { key: "k", value: "of a", sessionId: "a" });
await call("set", { key: "k", value: "of b", sessionId: "b" });
say("two sessions", { a: await text("get", { key: "k", sessionId: "a" }), b: await text("get", { key: "k", sessionId: "b" }) });

const unnamed = await call("get", { key: "k" });
say("no session id", {
  code: unnamed._meta?.["greenroom/error"]?.code ?? null,
  advice: unnamed.content[0].text.includes("create_new_session"),
  ...(!unnamed.isError && { text: unnamed.content[0].text }),
});

const named = async () => (await json("session_list", {})).sessions.map(({ id }) => id).filter((id) => id !== null);
const chosen = (await json("create_new_session", { sessionId: "c" })).sessionId;
const given = (await json("create_new_session", {})).sessionId;
const known = (ids) => ids.map((id) => (id === given ? "(given)" : id)).sort();
say("create", { chosen, given: given.length, sessions: known(await named()) });

const closed = [await text("session_close", { sessionId: chosen }), await text("session_close", { sessionId: given })];
const gone = await call("session_close", { sessionId: chosen });
say("close", { closed, again: gone._meta["greenroom/error"].code, sessions: known(await named()) });

// All of the progress is here before the engine may answer.
const steps = [];
const gate = `${part.gate}.progress`;
const going = text("wait", { file: gate, steps: 3, sessionId: "a" }, { onprogress: ({ progress }) => steps.push(progress) });
await until("three steps", () => steps.length >= 3);
writeFileSync(gate, "");
say("progress", { steps: [...steps], answer: await going });

if (!modern) await client.setLoggingLevel("warning");
const level = modern ? { "io.modelcontextprotocol/logLevel": "warning" } : undefined;
await call("log", { level: "info", data: "too low", sessionId: "a" }, undefined, level);
await call("log", { level: "error", data: { deep: [1, "two"] }, sessionId: "a" }, undefined, level);
await until("a log message", () => log.length > 0);
say("logging", { messages: log.map(({ level, logger, data }) => ({ level, logger, data })) });

if (part.revision < "2025-06-18") skip("elicitation", "elicitation");
else say("elicitation", { answer: await json("elicit", { message: "colour?", sessionId: "a" }), questions });

const structured = await call("structured", { n: 1.5, sessionId: "a" });
if (part.revision < "2025-06-18") skip("structured content", "structured content");
else say("structured content", { content: structured.structuredContent, text: structured.content[0].text });
say("_meta", { n: structured._meta["fake/n"] });

const failed = await call("fail", { message: "no luck", sessionId: "a" });
say("failed tool", { isError: failed.isError, text: failed.content[0].text });

const unknown = await call("ecoh", { sessionId: "a" }).then(() => null, (error) => error);
say("unknown tool", { code: unknown.code, named: unknown.message.includes('unknown tool: "ecoh"; did you mean "echo"?') });

const bad = await call("echo", { text: 7, sessionId: "a" });
say("bad arguments", { isError: bad.isError, code: bad._meta["greenroom/error"].code });

say("big answer", { characters: (await text("big", { bytes: 1_000_000, sessionId: "a" })).length });

const echoes = Array.from({ length: 20 }, (_, n) => text("echo", { text: `${n}`, sessionId: `p${n % 4}` }));
const right = (await Promise.all(echoes)).filter((echo, n) => echo === `${n}`);
say("side by side", { right: right.length });

const abort = new AbortController();
const slow = `${part.gate}.cancel`;
const held = call("wait", { file: slow, sessionId: "a" }, { signal: abort.signal }).then(() => "answered", () => "gave up");
await until("the call at the gate", () => existsSync(`${slow}.waiting`));
abort.abort("changed my mind");
const outcome = await held;
writeFileSync(slow, "");
say("cancel", { call: outcome, after: await text("get", { key: "k", sessionId: "a" }) });

if (modern) skip("ping", "ping");
else say("ping", { answer: await client.ping() });

if (part.url && !modern) await transport.terminateSession?.();
await client.close();
say("end", {});
