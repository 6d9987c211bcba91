// Keeps the engine to its own tabs in a browser whose other tabs belong to its user.
//
// By itself the engine selects some tab when it connects, and another when that is closed: it listens to the tab, and
// emulates focus in it. With this script it selects only own tabs by itself: the one that greenroom opened before, those
// that the engine makes, and those that these open. It uses any other tab only when a call names it.
//
// The script notes own tabs, and contexts that the engine made, in a file, so that greenroom can close them. If the engine's
// version lacks the functions that are changed here, the engine does not start.

import { appendFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { GREENROOM_ENGINE: engine, GREENROOM_TAB: first, GREENROOM_TABS: list } = process.env;
const { McpContext } = await import(pathToFileURL(engine));

const own = new Set([first]);
const id = (target) => target._targetId;

function isOwn(target) {
  if (own.has(id(target))) return true;
  const opener = target.opener();
  if (!opener || !isOwn(opener)) return false;
  own.add(id(target));
  return true;
}

const { createPagesSnapshot, selectPage, newPage } = McpContext.prototype;
for (const method of [createPagesSnapshot, selectPage, newPage]) {
  if (typeof method !== "function") throw new Error("greenroom does not know this version of the engine");
}

// True while the engine lists the tabs and selects one by itself. It does both in one call.
let looking = false;

McpContext.prototype.createPagesSnapshot = function () {
  looking = true;
  try {
    return createPagesSnapshot.call(this);
  } finally {
    looking = false;
  }
};

McpContext.prototype.selectPage = function (page) {
  const chosen = looking && !isOwn(page.target) ? this.getPages().find((page) => isOwn(page.target)) : page;
  if (chosen) selectPage.call(this, chosen);
};

McpContext.prototype.newPage = async function (background, isolatedContext) {
  const before = new Set(this.browser.browserContexts());
  const page = await newPage.call(this, background, isolatedContext);
  const context = page.target.browserContext();
  own.add(id(page.target));
  appendFileSync(list, `own ${id(page.target)}\n`);
  if (!before.has(context)) appendFileSync(list, `context ${context.id}\n`);
  return page;
};
