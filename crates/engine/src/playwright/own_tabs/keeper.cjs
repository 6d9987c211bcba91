// Runs in the engine's process, once for every page of a browser whose tabs are somebody else's. By itself the engine
// takes the first tab it finds as its current one, and a neighbour when that closes. This keeps it to its own tabs: the
// one that greenroom opened for it, those it makes, those that these open; and to any other only when the agent selects
// it. Without a tab of its own it has none, and opens one.
//
// Tabs that are not its own are left as they are: their file dialogs open, and no script is put into their documents. What
// they do holds up no call. A browser with windows ends with its last tab, so that one is not closed before there is
// another.
//
// Which tabs are its own stands in a file, a line for each: greenroom writes `opened ID`, this adds `own ID`. If
// anything here does not fit the engine any more, no line is added, and greenroom gives up instead of going on.
'use strict';

const { appendFileSync, existsSync, readFileSync } = require('node:fs');
const { join } = require('node:path');

const LIST = join(__dirname, 'tabs');
const SETTLE = join(__dirname, 'settle', 'engine.cjs');
/** What lets a page settle early, unless its user wants a fixed time. */
const settle = existsSync(SETTLE) ? require(SETTLE).default : undefined;

/** How long a tab of somebody else's may take to say what it is, in milliseconds. All are asked with every call. */
const HEADER = 300;

/** One for each session with the engine. */
const keepers = new WeakMap();

/** The engine's own account of a page. */
const tabOf = (page) => page[Object.getOwnPropertySymbols(page).find((one) => one.description === 'tabSymbol')];

/** The ids of a page and of whoever opened it. */
async function targetOf(page) {
  const session = await page.context().newCDPSession(page);
  try {
    return (await session.send('Target.getTargetInfo')).targetInfo;
  } finally {
    session.detach().catch(() => {});
  }
}

/** Has a page that its user does not look at go on as if it were in front. It would not be drawn, and a click waits for that. */
async function wake(page) {
  // The session is not detached: with it this would end.
  const session = await page.context().newCDPSession(page);
  await session.send('Emulation.setFocusEmulationEnabled', { enabled: true });
}

/** What a tab says of itself for the list of tabs, or as good as nothing: one that hangs or goes meanwhile holds nobody up. */
async function headerInTime(tab, header) {
  const console = { total: 0, errors: 0, warnings: 0 };
  const nothing = { title: '', url: tab.page.url(), current: false, crashed: false, console, changed: false };
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, HEADER, nothing)));
  const said = header.call(tab).catch(() => nothing);
  return Promise.race([said, late]).finally(() => clearTimeout(timer));
}

class Keeper {
  constructor(context, browser) {
    this.context = context;
    this.browser = browser;
    /** Pages that are its own, and pages that the agent chose. */
    this.own = new Set();
    this.chosen = new Set();
    /** Ids of all that ever were its own. */
    this.ids = new Set();
    /** What listens for file dialogs, of pages where nothing may. */
    this.silenced = new Map();
    /** Looking at pages, one promise for each. */
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

  /** Asks the browser itself, beside what the engine knows of it. */
  async ask(method, params) {
    this.session ??= this.browser.newBrowserCDPSession();
    return (await this.session).send(method, params);
  }

  /** Whether the browser has no more than one tab, in whatever context. */
  async hasOneTab() {
    const { targetInfos } = await this.ask('Target.getTargets');
    return targetInfos.filter((target) => target.type === 'page').length <= 1;
  }

  /** Opens an empty tab where the last one is about to go. It is the user's. One that had no tab before needs none. */
  async leaveSomeTab() {
    if (!this.wasEmpty && (await this.hasOneTab())) await this.ask('Target.createTarget', { url: 'about:blank' });
  }

  /** What the browser answers comes after all that happened before: tabs that were closed are known to be then. */
  async catchUp() {
    await this.ask('Browser.getVersion');
  }

  /** Looks at all tabs there are. What the engine took for its current one before is left if it may not be used. */
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

  /** The tab of its own that came last. */
  last() {
    return this.context.tabs().findLast((tab) => this.own.has(tab.page));
  }

  meet(page) {
    if (!this.seen.has(page)) this.seen.set(page, this.look(page));
    return this.seen.get(page);
  }

  async look(page) {
    // A page that closes meanwhile needs nothing.
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

  /** While something listens for them, file dialogs do not open for the user. */
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
    // One that closes meanwhile needs no more.
    const installed = settle && settle({ page, alone: true });
    await Promise.all([wake(page), installed]).catch(() => {});
  }
}

exports.default = async ({ page }) => {
  const { context } = tabOf(page);
  if (!keepers.has(context)) keepers.set(context, new Keeper(context, page.context().browser()));
  const keeper = keepers.get(context);
  await keeper.ready;
  await keeper.meet(page);
};
