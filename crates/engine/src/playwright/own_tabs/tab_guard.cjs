// Runs in the engine's process, once for every page of a browser whose other tabs belong to its user. By itself the engine
// takes the first tab it finds as its current one, and a neighbour when that closes. This script keeps it to its own tabs:
// the one that greenroom opened for it, those it makes, those that these open; and to any other only when the agent selects
// it. If it has no tab of its own, it opens one.
//
// Other tabs stay unchanged: their file dialogs open, and no script is put into their documents. They delay no call. A
// browser with windows exits with its last tab, so that one is not closed before there is another.
//
// A file lists the engine's own tabs, a line for each: greenroom writes `opened ID`, this script adds `own ID`. If this
// script no longer fits the engine, no line is added, and greenroom does not open the seat.
'use strict';

const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { join } = require('node:path');

const LIST = join(__dirname, 'tabs');
const SETTLE = join(__dirname, 'settle', 'engine.cjs');
/** Lets a page settle early, unless the user wants a fixed time. */
const settle = existsSync(SETTLE) ? require(SETTLE).default : undefined;

/** How long a user's tab may take to report its title and address, in milliseconds. All tabs are asked with every call. */
const HEADER = 300;

/** One for each session with the engine. */
const guards = new WeakMap();

/** The engine's own object for a page. */
const tabOf = (page) => page[Object.getOwnPropertySymbols(page).find((one) => one.description === 'tabSymbol')];

/** The ids of a page and of the page that opened it. */
async function targetOf(page) {
  const session = await page.context().newCDPSession(page);
  try {
    return (await session.send('Target.getTargetInfo')).targetInfo;
  } finally {
    session.detach().catch(() => {});
  }
}

/** Makes a page in the background run as if it were in front. Otherwise it would not be drawn, and a click waits for that. */
async function wake(page) {
  // The session stays attached: the emulation would end with it.
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setFocusEmulationEnabled', { enabled: true });
}

/** A tab's entry for the list of tabs, or an empty one: a tab that hangs or closes meanwhile delays no call. */
async function headerInTime(tab, header) {
  const console = { total: 0, errors: 0, warnings: 0 };
  const nothing = { title: '', url: tab.page.url(), current: false, crashed: false, console, changed: false };
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, HEADER, nothing)));
  const said = header.call(tab).catch(() => nothing);
  return Promise.race([said, late]).finally(() => clearTimeout(timer));
}

class TabGuard {
  constructor(context, browser) {
    this.context = context;
    this.browser = browser;
    /** The engine's own pages, and pages that the agent selected. */
    this.own = new Set();
    this.chosen = new Set();
    /** Ids of all tabs that ever were its own. */
    this.ids = new Set();
    /** Removed listeners for file dialogs, of pages where the engine may not listen. */
    this.silenced = new Map();
    /** The checks of pages, one promise for each. */
    this.seen = new WeakMap();
    this.hook();
    this.ready = this.begin();
  }

  hook() {
    const { context } = this;
    const { ensureTab, selectTab, closeTab } = context;
    const set = context._setCurrentTab.bind(context);
    context._setCurrentTab = (tab) => set(!tab || this.mayUse(tab.page) ? tab : this.last());
    context.ensureTab = async () => {
      await this.catchUp();
      return ensureTab.call(context);
    };
    context.newTab = async () => {
      const browserContext = await context.ensureBrowserContext();
      const page = await browserContext.newPage();
      try {
        await this.claim(page, (await targetOf(page)).targetId);
      } catch (error) {
        await page.close().catch(() => {});
        throw error;
      }
      context._setCurrentTab(tabOf(page));
      return context.currentTab();
    };
    context.selectTab = async (index) => {
      const tab = context.tabs()[index];
      if (tab && !this.mayUse(tab.page)) {
        this.chosen.add(tab.page);
        await this.welcome(tab.page);
      }
      return selectTab.call(context, index);
    };
    context.closeTab = async (index) => {
      const tab = index === undefined ? context.currentTab() : context.tabs()[index];
      if (tab) await this.leaveSomeTab();
      return closeTab.call(context, index);
    };
  }

  /** Calls the browser itself, past the engine. */
  async ask(method, params) {
    this.session ??= this.browser.newBrowserCDPSession();
    return (await this.session).send(method, params);
  }

  /** Whether the browser has at most one tab, in all contexts. */
  async hasOneTab() {
    const { targetInfos } = await this.ask('Target.getTargets');
    return targetInfos.filter((target) => target.type === 'page').length <= 1;
  }

  /** Opens an empty tab for the user before the last one closes, unless the browser had no tab at first. */
  async leaveSomeTab() {
    if (!this.wasEmpty && (await this.hasOneTab())) await this.ask('Target.createTarget', { url: 'about:blank' });
  }

  /** The browser's answer comes after all earlier events: the engine then knows which tabs were closed. */
  async catchUp() {
    await this.ask('Browser.getVersion');
  }

  /** Checks all tabs. Deselects the engine's current one if the engine may not use it. */
  async begin() {
    for (const line of readFileSync(LIST, 'utf8').split('\n')) {
      if (line.startsWith('opened ')) this.ids.add(line.slice('opened '.length));
    }
    this.wasEmpty = await this.hasOneTab();
    await Promise.all(this.context.tabs().map((tab) => this.meet(tab.page)));
    const current = this.context.currentTab();
    if (!current || !this.mayUse(current.page)) this.context._setCurrentTab(this.last());
  }

  mayUse(page) {
    return this.own.has(page) || this.chosen.has(page);
  }

  /** Its own tab that was opened last. */
  last() {
    return this.context.tabs().findLast((tab) => this.own.has(tab.page));
  }

  meet(page) {
    if (!this.seen.has(page)) this.seen.set(page, this.look(page));
    return this.seen.get(page);
  }

  async look(page) {
    // A page that closes meanwhile is skipped.
    const { targetId, openerId } = await targetOf(page).catch(() => ({}));
    if (this.ids.has(targetId) || this.ids.has(openerId)) await this.claim(page, targetId);
    else if (!this.mayUse(page)) this.silence(page);
  }

  async claim(page, id) {
    if (this.own.has(page)) return;
    appendFileSync(LIST, `own ${id}\n`);
    this.ids.add(id);
    this.own.add(page);
    page.once('close', () => this.own.delete(page));
    await this.welcome(page);
    if (!this.context.currentTab()) this.context._setCurrentTab(tabOf(page));
  }

  /** While the engine listens for file dialogs, they do not open for the user. */
  silence(page) {
    const listeners = page.listeners('filechooser');
    this.silenced.set(page, listeners);
    for (const listener of listeners) page.off('filechooser', listener);
    const tab = tabOf(page);
    const { headerSnapshot } = tab;
    tab.headerSnapshot = () => headerInTime(tab, headerSnapshot);
    page.once('close', () => {
      this.silenced.delete(page);
      this.chosen.delete(page);
    });
  }

  async welcome(page) {
    for (const listener of this.silenced.get(page) ?? []) page.on('filechooser', listener);
    this.silenced.delete(page);
    delete tabOf(page).headerSnapshot;
    // A page that closes meanwhile needs no scripts.
    const installed = settle && settle({ page, alone: true });
    await Promise.all([wake(page), installed]).catch(() => {});
  }
}

exports.default = async ({ page }) => {
  const { context } = tabOf(page);
  if (!guards.has(context)) guards.set(context, new TabGuard(context, page.context().browser()));
  const guard = guards.get(context);
  await guard.ready;
  await guard.meet(page);
};
