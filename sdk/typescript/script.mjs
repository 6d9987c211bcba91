// The script that every SDK plays against greenroom, as a TypeScript client plays it. script.py and the Rust tests
// do the same steps; ../expected.jsonl says what each of them must see.
//
// The one argument is the part to play, as JSON: `sdk` (where the SDKs are installed), `package` (which of them),
// `revision` (what must be negotiated), `probe` (whether to ask `server/discover` first), `gate` (where files can be
// made that hold calls), and `url`, or `command`, `args`, `env`, `cwd`. It prints one line of JSON for each step and
// ends with 0; anything unexpected is an exception.

import { existsSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

import { connect } from "./client.mjs";

const part = JSON.parse(process.argv[2]);
const modern = part.revision >= "2026-07-28";

const { client, call: callTool, revision, close, log, questions, changes } = await connect(part);

const say = (step, facts) => console.log(JSON.stringify({ step, ...facts }));
const skip = (step, feature) => say(step, { skipped: `${part.revision} has no ${feature}` });
const call = (name, args, options, meta) => callTool({ name, arguments: args, ...(meta && { _meta: meta }) }, options);
const text = async (...args) => (await call(...args)).content[0].text;
const json = async (...args) => JSON.parse(await text(...args));

async function until(what, look) {
  for (let tries = 0; !(await look()); tries++) {
    if (tries > 6000) throw new Error(`never saw ${what}`);
    await pause(5);
  }
}

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

// The content of an answer is kept, and can be read again.
await call("picture", { sessionId: "a" });
const { resources } = await client.listResources();
const { resourceTemplates } = await client.listResourceTemplates();
const picture = resources.find(({ mimeType }) => mimeType === "image/png");
const { contents } = await client.readResource({ uri: picture.uri });
// The code differs between revisions, and some SDKs report the newer one for both.
const refused = await client.readResource({ uri: "greenroom://blobs/none" }).then(() => null, ({ code }) => code);
say("resources", {
  listed: resources.map(({ mimeType }) => mimeType).sort(),
  templates: resourceTemplates.map(({ uriTemplate }) => uriTemplate),
  read: contents[0].blob.slice(0, 11),
  absent: [-32002, -32602].includes(refused),
});

say("big answer", { characters: (await text("big", { bytes: 1_000_000, sessionId: "a" })).length });

const echoes = Array.from({ length: 20 }, (_, n) => text("echo", { text: `${n}`, sessionId: `p${n % 4}` }));
const right = (await Promise.all(echoes)).filter((echo, n) => echo === `${n}`);
say("side by side", { right: right.length });

// One call runs, one waits behind it, and both are given up: the one that waited must never run.
const slow = `${part.gate}.cancel`;
const abort = new AbortController();
const outcome = (held) => held.then(() => "answered", () => "gave up");
const running = outcome(call("wait", { file: slow, sessionId: "a" }, { signal: abort.signal }));
await until("the call at the gate", () => existsSync(`${slow}.waiting`));
const queued = outcome(call("set", { key: "k", value: "never", sessionId: "a" }, { signal: abort.signal }));
const inFlight = async () => (await json("session_list", {})).sessions.find(({ id }) => id === "a").callsInFlight;
await until("two calls in flight", async () => (await inFlight()) === 2);
abort.abort("changed my mind");
// No event shows that greenroom has received it. After some further browsers it has: a spare would be there at once.
for (let n = 0; n < 6; n++) await call("create_new_session", { sessionId: `later${n}` });
writeFileSync(slow, "");
say("cancel", { calls: [await running, await queued], after: await text("get", { key: "k", sessionId: "a" }) });

// The engine of one session gets a new tool: every client that listens receives the change, and can use the tool.
const before = changes.length;
const added = await text("change_tools", { sessionId: "a" });
await until("that the list has changed", () => changes.length > before);
const listed = (await client.listTools()).tools.some((tool) => tool.name === added);
say("changed tools", { added, listed, answer: await text(added, { sessionId: "a" }) });

if (modern) skip("ping", "ping");
else say("ping", { answer: await client.ping() });

await close();
say("end", {});
