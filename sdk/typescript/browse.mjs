// A few steps with a real browser: open a page, follow a link, look. The one argument is the part to play, as for
// script.mjs, with `site`, the address of the test site. It prints the answer of each step as one line of JSON.

import { connect } from "./client.mjs";

const part = JSON.parse(process.argv[2]);
const { call, revision, close } = await connect(part);

const step = async (name, args) => {
  const { content, isError } = await call({ name, arguments: { ...args, sessionId: "browse" } });
  console.log(JSON.stringify({ step: name, isError: isError ?? false, text: content[0].text }));
};

console.log(JSON.stringify({ step: "connect", revision }));
await step("browser_navigate", { url: part.site });
await step("browser_click", { target: 'a[href="/form"]' });
await step("browser_snapshot", {});
await step("session_close", {});
await close();
