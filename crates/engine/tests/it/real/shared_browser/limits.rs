//! The limits of a browser that greenroom starts: processor, processes, open files, shared memory, and limits too low to
//! start with. `overload.rs` tests the limit of memory.

use std::fs;

use greenroom_core::{Engine, InstanceId, settings::Cores};
use greenroom_engine::{EngineBase, EngineOptions, PlaywrightEngine, browser::BrowserKind};
use greenroom_testkit::{case, eventually, process};
use serde_json::json;

use super::{BROWSERS, SharedBrowser, browser, data_folder, engine};

/// Keeps a core busy, and sends nothing to the browser.
const BUSY: &str = "() => { const url = URL.createObjectURL(new Blob(['for (;;) {}'])); new Worker(url); }";

/// Shares memory with the browser.
const SHARED: &str = "async () => { window.blob = new Blob([new Uint8Array(4 << 20)]);
    window.reader = blob.stream().getReader(); await reader.read(); return 1; }";

type SetOption = fn(&mut EngineOptions);

/// All processes of the browser.
fn processes(browser: &SharedBrowser) -> Vec<u32> {
    let chromium = browser.instance.process_ids().pop().unwrap();
    [vec![chromium], process::children(chromium)].concat()
}

fn renderers(browser: &SharedBrowser) -> Vec<u32> {
    let command = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    processes(browser).into_iter().filter(|pid| command(pid).contains("--type=renderer")).collect()
}

/// The `nice` values of all threads of a process, in order.
fn nice_values(pid: u32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let nice = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()
    };
    let mut values: Vec<_> = threads.flatten().filter_map(nice).collect();
    values.sort_unstable();
    values
}

/// Whether a worker runs in a renderer.
fn has_worker(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let name = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    threads.map(name).any(|name| name.starts_with("DedicatedWorker"))
}

/// A page that keeps the processor busy for long gets a lower priority, with all of its threads, and is not ended. Its
/// neighbour keeps its priority.
#[tokio::test]
async fn busy_page_gets_a_lower_priority() {
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, |options| {
        // Other tests may keep the machine busy. To load the pages takes less than the three seconds that this allows.
        options.pool.cpu_cores_max = Cores::new(0.3);
    })
    .await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    let start = renderers(&browser).into_iter().map(|pid| nice_values(pid)[0]).max().unwrap();
    hostile.evaluate(BUSY).await;
    let (busy, others): (Vec<_>, Vec<_>) = renderers(&browser).into_iter().partition(|pid| has_worker(*pid));
    assert!(busy.len() == 1 && !others.is_empty(), "{busy:?} {others:?}");
    eventually("a lower priority of all threads", || (nice_values(busy[0])[0] > start).then_some(())).await;
    assert!(others.iter().all(|pid| nice_values(*pid)[0] == start), "{others:?}");
    assert_eq!(hostile.evaluate("() => document.title").await, json!("hostile"));
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!((hostile.seat.take_crashes(), neighbour.seat.take_crashes()), (Vec::new(), Vec::new()));
    assert_eq!(*browser.instance.lost().borrow(), None);
    browser.end_with([hostile, neighbour]).await;
}

/// A session opens tab after tab: the newest are ended, and the reason names the setting. A neighbour's page goes on, and the
/// number of processes is within the limit.
#[tokio::test]
async fn tabs_over_the_process_limit_are_ended() {
    const PROCESSES_MAX: usize = 16;
    let browser = SharedBrowser::start_with(BrowserKind::HeadlessShell, |options| {
        options.pool.processes_max = PROCESSES_MAX;
    })
    .await;
    let (mut hostile, mut neighbour) = browser.hostile_and_neighbour().await;
    let url = browser.site.url("/title?t=tab");
    let mut crash = None;
    for _ in 0..64 {
        hostile.reply("browser_tabs", json!({ "action": "new", "url": url })).await;
        crash = crash.or_else(|| hostile.seat.take_crashes().pop());
        if crash.is_some() {
            break;
        }
    }
    let crash = match crash {
        Some(crash) => crash,
        None => eventually("a page is ended", || hostile.seat.take_crashes().pop()).await,
    };
    assert!(crash.why.contains("too many processes (pool.processes_max)"), "{crash:?}");
    eventually("few processes", || (processes(&browser).len() <= PROCESSES_MAX).then_some(())).await;
    assert_eq!(neighbour.evaluate("() => document.title").await, json!("neighbour"));
    assert_eq!(neighbour.seat.take_crashes(), []);
    assert_eq!(*browser.instance.lost().borrow(), None);
    browser.end_with([hostile, neighbour]).await;
}

/// Every process of a browser has the limit of open files, and none has a file in `/dev/shm`: the shared memory of pages
/// counts as memory.
#[tokio::test]
async fn open_files_are_limited_and_shared_memory_is_no_file() {
    for kind in BROWSERS {
        let browser = SharedBrowser::start_with(kind, |options| options.pool.open_files_max = 700).await;
        let mut seat = browser.seat().await;
        let url = browser.site.url("/title?t=page");
        seat.call("browser_navigate", json!({ "url": url })).await;
        assert_eq!(seat.evaluate(SHARED).await, json!(1));
        for pid in processes(&browser) {
            let Ok(limits) = fs::read_to_string(format!("/proc/{pid}/limits")) else { continue };
            let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
            let hard: u64 = files.split_whitespace().nth(4).unwrap().parse().unwrap();
            assert_eq!(hard, 700, "{kind:?}: {files}");
            for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
                let link = fs::read_link(file.path()).unwrap_or_default();
                assert!(!link.starts_with("/dev/shm"), "{kind:?}: {}", link.display());
            }
        }
        seat.seat.close().await;
        browser.end().await;
    }
}

/// A limit with which a browser cannot start, or that it exceeds without a page, is refused with the setting's name, and no
/// process stays.
#[tokio::test]
async fn limits_too_low_to_start_are_named() {
    let cases: [(&str, SetOption); 3] = [
        ("pool.memory_bytes_max", |options| options.pool.memory_bytes_max = Some(8 << 20)),
        ("pool.processes_max", |options| options.pool.processes_max = 2),
        ("pool.open_files_max", |options| options.pool.open_files_max = 40),
    ];
    for kind in BROWSERS {
        for (setting, set) in cases {
            case(setting, async {
                let data = data_folder();
                let made = engine(data.path(), 1, &[]);
                let mut options = (*made.options).clone();
                options.pool.browser = browser(kind);
                set(&mut options);
                let engine = PlaywrightEngine(EngineBase { options: options.into(), ..made.0 });
                let Err(error) = engine.start(InstanceId(0)).await else { panic!("{kind:?}: it started") };
                let hint = error.hint.clone().unwrap_or_default();
                assert!(hint.contains(&format!("raise `{setting}`")), "{kind:?}: {error} {hint}");
                let tag = engine.run.tag().to_owned();
                eventually("no process left", || {
                    process::processes_with_env("GREENROOM_RUN", &tag).is_empty().then_some(())
                })
                .await;
            })
            .await;
        }
    }
}
