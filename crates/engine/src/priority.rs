//! Runs pages at a lower priority than the browser, its network service and the engine: a page that keeps every core busy
//! slows down pages, and not other sessions' calls.
//!
//! Chromium forks every renderer from one helper, the zygote, and a fork inherits its parent's `nice` value; so greenroom
//! sets the value there, once, before there is any page. GPU process and network service have another parent and keep their
//! priority. (A storage service is forked from the same zygote; full Chromium starts it before this, the headless shell has
//! none.)
//!
//! If it has the right to, as root or with a generous limit, Chromium sets the priority of its threads itself, and
//! would undo this. So greenroom starts it without that right (`ProcessSpec::no_priority_raise`).

use std::{fs, io};

use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::process_tree::{Descendant, ZYGOTE, descendants};

/// How much lower pages run, and by how much [`lower_page`] lowers one further: Chromium's own value for pages in the background. If a page is busy, the browser gets three
/// times the time of one of the page's threads, and a page still makes progress if other programs are busy.
const LOWER_BY: i32 = 5;

/// The lowest possible priority.
const LOWEST: i32 = 19;

/// Lowers the priority of all future pages of this browser, which has none yet.
pub(crate) fn lower_pages(browser: u32) {
    let zygotes: Vec<_> = descendants(browser).into_iter().filter(forks_renderers).collect();
    if zygotes.is_empty() {
        tracing::warn!(
            browser,
            "pages run at the browser's own priority: the process that forks them was not found"
        );
    }
    for zygote in zygotes {
        if let Err(error) = lower(zygote.pid) {
            tracing::warn!(browser, zygote = zygote.pid, %error, "pages run at the browser's own priority");
        }
    }
}

/// Lowers the priority of a running page by a step, for all of its threads; new ones inherit it. Returns the new value, and
/// `None` if it was the lowest possible. A user may not raise it again, so it stays as long as the page's process: a page of
/// another site gets a new one.
pub(crate) fn lower_page(pid: u32) -> io::Result<Option<i32>> {
    let raw = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
    if getpriority_process(raw(pid))? >= LOWEST {
        return Ok(None);
    }
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may have ended.
        if let Some(thread) = thread.file_name().to_str().and_then(|id| id.parse().ok()) {
            let _ = lower(thread);
        }
    }
    Ok(Some(getpriority_process(raw(pid))?))
}

/// Chromium has two zygotes; the one without a sandbox forks the GPU process and no renderers.
fn forks_renderers(process: &Descendant) -> bool {
    process.has_argument(ZYGOTE) && !process.has_argument("--no-zygote-sandbox")
}

fn lower(pid: u32) -> rustix::io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let now = getpriority_process(pid)?;
    setpriority_process(pid, (now + LOWER_BY).min(LOWEST))
}
