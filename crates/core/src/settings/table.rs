//! Every setting of greenroom. To add one, add it here; its flag, its variable, its line in `greenroom config show`
//! and its row in `docs/CONFIG.md` follow.
//!
//! The word after a setting's kind is its [`Guard`](super::Guard): what a file that merely lies in the working directory may
//! do with it. It has no default, so that every new setting decides it. A setting of pools also says what it means to a
//! browser that already runs, `fit`, and which engine alone has it, `only`, if one does.
//!
//! `check.rs` has the conditions between settings.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    address::Address,
    attached_browsers::{
        AttachedBrowser,
        fits::{CUSTOM, ISOLATED, ONE, RUNS, YES, no},
    },
    browser_args::BrowserArgs,
    bytes::Bytes,
    choice::{
        Browser, Cap, Choice, Codegen, ColorScheme, EngineKind, ImageResponses, Permission, Responses, Scope,
        When,
    },
    declare::{
        Guard::{Guarded, Limit, LimitWith, Open},
        Reach, Section, Setting, settings,
    },
    duration::Span,
    emulation::{Geolocation, Locale, Position, Scale, ScaleFactor, TimeZone},
    kind::{Kind, LogFilter, Or, Switch, Text, Whole},
    list::{Argv, Globs, Many},
    path::{Place, Program},
    pools::DeclaredPool,
    server_url::ServerUrl,
    viewport::{Size, Viewport},
    web::{Origins, ProxyUrl},
};
use crate::lease::{INSTANCES_MAX, SLOTS_MAX, Strategy};

/// The engine that alone has a setting.
const PLAYWRIGHT: Option<EngineKind> = Some(EngineKind::Playwright);

settings! {
    defaults(data_dir: PathBuf)

    /// Where things are, and what greenroom says about itself.
    {
        /// Where the engine, caches, profiles, records and run files live.
        "data_dir" data_dir: PathBuf = data_dir => Place, Guarded;
        /// What is logged to stderr: a level, or a filter such as `info,greenroom_fleet=debug`.
        "log" log: String = "warn".to_owned() => LogFilter, Open;
        /// What an agent gets of an answer: `auto` sends a page whole when the agent has not just been sent it, and
        /// otherwise what changed; `inline` always sends it whole, linked snapshots included, up to `inline_tokens`;
        /// `refs` sends the outcome and a `ref_id`, to ask for the rest with `get_content`; `raw` sends the engine's
        /// answer byte for byte. A call may ask for another with `mode`.
        "responses" responses: Responses = Responses::Auto => Choice::<Responses>::ANY, Open;
        /// How much of an answer is sent by `auto` and `inline`, in tokens as greenroom estimates them. A longer snapshot is folded
        /// where it repeats itself, and of a longer text the beginning is sent; the answer says how much is left out
        /// and how to get it.
        "inline_tokens" inline_tokens: usize = 8_000 => Whole(200..=1_000_000), Open;
        /// The Node.js executable that runs the engine. Found on `PATH` when unset.
        "node" node: Option<PathBuf> = None => Or("unset", Program), Guarded;
    }

    /// `greenroom serve`: one server for many clients.
    server: Server {
        /// Where the server listens; port 0 takes a free one. Beyond this machine's own loopback it needs API keys,
        /// which do not exist yet, so it refuses.
        "server.listen" listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 34501)) => Address, Open;
        /// Further names that clients may call the server by, without ports, such as that of a proxy in front of it.
        "server.allowed_hosts" allowed_hosts: Vec<String> = Vec::new() => Many(Text("HOST")), Guarded;
        /// How long calls that still run are let run when the server is told to stop; a second signal does not wait.
        "server.drain_timeout" drain_timeout: Duration = Duration::from_secs(5) => Span::FROM_ZERO, Open;
    }

    /// What an agent sees: named, owned, isolated browsers.
    sessions: Sessions {
        /// What a call without `sessionId` means: `connection` gives it the session of its MCP connection, `call`
        /// lends it any free browser, whose page and cookies its owner's next such call may find again, `explicit`
        /// refuses it. Once pools are declared, or browsers to attach to, the default is `call`.
        "sessions.scope" scope: Scope = Scope::Connection => Choice::<Scope>::ANY, Limit;
        /// A session that nobody used for this long is closed. A call in flight keeps its session alive.
        "sessions.idle_timeout" idle_timeout: Duration = Duration::from_secs(300) => Span::POSITIVE, Limit;
        /// A session older than this is closed even while it is used.
        "sessions.max_lifetime" max_lifetime: Option<Duration> = None => Or("off", Span::POSITIVE), Limit;
        /// How much disk space the files of a session may take: downloads, and what its tools write. Over it the session's
        /// downloads are stopped, it can download no more, and tools that write files are refused. Traces, and videos while
        /// they are recorded, do not count. Pages may store as much again in a temporary profile. A profile that stays has
        /// the browser's own quota.
        "sessions.disk_bytes_max" disk_bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
        /// How much memory a Chromium that greenroom started may take, with all pages of its sessions. Over it the page that
        /// takes most is ended: it loses its tab, and the other tabs and sessions go on. `auto` is half of the machine's, or
        /// of the container's.
        "sessions.memory_bytes_max" memory_bytes_max: Option<u64> = None
            => Or("auto", Bytes(1 << 28..=1 << 50)), Guarded;
    }

    /// What is kept of every call, and for how long.
    records: Records {
        /// Whether calls are kept at all. Without records nothing can be recalled, so answers are neither cut nor sent
        /// as `refs`.
        "records.enabled" enabled: bool = true => Switch, Guarded;
        /// The folder of the database `records.db` and its blobs; `data_dir` when unset. Greenrooms that share it must
        /// share `data_dir` too.
        "records.dir" dir: Option<PathBuf> = None => Or("unset", Place), Guarded;
        /// Arguments whose values are not kept, by name, beside those that look like secrets: passwords, tokens, keys.
        "records.redact" redact: Vec<String> = Vec::new() => Many(Text("NAME")), Guarded;
        /// Records older than this are removed.
        "records.max_age" max_age: Duration = Duration::from_secs(7 * 24 * 3600) => Span::POSITIVE, Guarded;
        /// When the database is bigger than this, the oldest records are removed.
        "records.bytes_max" bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
    }

    /// Images, files and other bytes that came with answers.
    blobs: Blobs {
        /// A blob that nobody asked for in this long is removed.
        "blobs.ttl" ttl: Duration = Duration::from_secs(24 * 3600) => Span::POSITIVE, Guarded;
        /// When all blobs together are bigger than this, those longest unused are removed.
        "blobs.bytes_max" bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
        /// Keeps the blobs of each pool in a folder of their own. Otherwise equal ones of several pools are kept once.
        "blobs.per_pool" per_pool: bool = false => Switch, Limit;
    }

    /// Which tools agents may see and call.
    tools: Tools {
        /// Only tools whose names match one of these globs. Empty means all.
        "tools.allow" allow: Vec<String> = Vec::new() => Globs, Guarded;
        /// No tools whose names match one of these globs; beats `tools.allow`.
        "tools.deny" deny: Vec<String> = Vec::new() => Globs, Guarded;
        /// Also tools that run code in the engine's own process, out of reach of the browser's sandbox. Requires
        /// `pool.slots = 1`, because such code reaches every session of its process. Says nothing about the tools of
        /// a custom engine.
        "tools.unsafe" r#unsafe: bool = false => Switch, Guarded;
        /// Also the tools that web pages offer themselves.
        "tools.webmcp" webmcp: bool = false => Switch, Guarded;
    }

    /// Browsers that already run, which `[[browsers]]`, `--browserUrl` and `--wsEndpoint` name.
    attach: Attach {
        /// Whether agents may add and remove browsers while greenroom runs: `auto` lets those of this machine do so where
        /// browsers are configured, `on` lets everybody, also over HTTP, `off` nobody.
        "attach.changes" changes: When = When::Auto => Choice::<When>::ANY, Guarded;
        /// Whether all browsers are connected at the start, beside everything else, instead of each with its first call.
        /// `auto` does so in `greenroom serve`.
        "attach.eager" eager: When = When::Auto => Choice::<When>::ANY, Open;
        /// How long a browser that could not be reached is left alone before it is tried again.
        "attach.cooldown" cooldown: Duration = Duration::from_secs(60) => Span::POSITIVE, Open;
    }

    /// The browsers that sessions are lent from. With declared pools, these are what all of them start from, as far
    /// as they are set; without, they are the one pool there is.
    pool: Pool {
        /// What speaks browser tools: `playwright` is the pinned `@playwright/mcp`, `devtools` the pinned
        /// `chrome-devtools-mcp`, `custom` is any MCP server, started by `pool.command` or found at `pool.url`.
        "pool.engine" engine: EngineKind = EngineKind::Playwright
            => Choice::<EngineKind>::ANY, LimitWith(&["tools.allow", "tools.deny"]), reach = Reach::Pool, fit = YES;
        /// The program of the custom engine and its arguments. No shell is involved.
        "pool.command" command: Vec<String> = Vec::new()
            => Argv, Guarded, reach = Reach::Pool,
            fit = no("it is the custom engine's; what starts this browser is its `start_command`");
        /// The address of a custom engine that runs already and speaks MCP over HTTP, instead of `pool.command`.
        "pool.url" url: Option<String> = None
            => Or("unset", ServerUrl::MCP), Guarded, reach = Reach::Pool, fit = CUSTOM;
        /// Each session a browser context of its own, gone with the session. Otherwise an instance is one browser
        /// with a profile that stays, for one owner.
        "pool.isolated" isolated: bool = true => Switch, Limit, fit = YES;
        /// How many isolated sessions one instance holds at once; 1 in declared pools. Each session of the custom
        /// engine is a process of its own, or a session at its address; each of the devtools engine is a process and
        /// a browser of its own.
        "pool.slots" slots: usize = 16 => Whole(1..=SLOTS_MAX), Limit, fit = YES;
        /// How many instances may run at once. One is added when all slots are taken.
        "pool.instances_max" instances_max: usize = 8
            => Whole(1..=INSTANCES_MAX), Limit, reach = Reach::BuiltIn, fit = ONE;
        /// How many spare seats are kept ready, so that a new session need not wait for its browser. Each takes a
        /// slot that is not needed otherwise, a new instance's too. `auto` is 0, but 1 in the built-in pool of
        /// `greenroom serve`.
        "pool.warm" warm: Option<usize> = None
            => Or("auto", Whole(0..=64)), Limit, reach = Reach::Pool,
            fit = no("nothing is opened in a running browser before it is needed");
        /// Instances of declared pools start when they are first needed, instead of at the start.
        "pool.lazy" lazy: bool = false => Switch, Open, fit = no("`attach.eager` says when browsers are connected");
        /// An instance that no session uses is stopped after this long. With `pool.warm` the last one stays.
        "pool.instance_idle" instance_idle: Duration = Duration::from_secs(300)
            => Span::POSITIVE, Limit, reach = Reach::BuiltIn, fit = ONE;
        /// How long a call waits for a free slot. `0` refuses at once when every slot is lent; whoever waits only for
        /// a browser to start waits for that.
        "pool.lease_timeout" lease_timeout: Duration = Duration::from_secs(30)
            => Span::FROM_ZERO, Open, reach = Reach::Pool, fit = YES;
        /// Which free instance a caller gets who named none: `fifo` the one given back first, `round_robin` the next
        /// in turn, `least_used` the one with the fewest leases, `sticky` the one that the same session or owner had
        /// last. `auto` is `fifo` in declared pools; otherwise it fills one instance before the next.
        "pool.lease_strategy" lease_strategy: Option<Strategy> = None
            => Or("auto", Choice::<Strategy>::ANY), Open, reach = Reach::Pool, fit = ONE;
        /// How often each instance is asked for a sign of life.
        "pool.health_interval" health_interval: Duration = Duration::from_secs(20) => Span::POSITIVE, Open, fit = YES;
        /// How long an instance may take to give one.
        "pool.health_timeout" health_timeout: Duration = Duration::from_secs(5) => Span::POSITIVE, Open, fit = YES;
        /// How often an instance is restarted within five minutes before it stays failed.
        "pool.restarts" restarts: usize = 3
            => Whole(0..=100), Open, fit = no("a lost browser is tried again until it is back; see `attach.cooldown`");
        /// Deadline of one call; 30 s in declared pools. A call that itself asks for a longer wait extends it.
        "pool.timeout" timeout: Duration = Duration::from_secs(90) => Span::POSITIVE, Open, fit = YES;
        /// What agents get of this pool's answers, instead of what `responses` says; `inherit` is what it says.
        "pool.responses" responses: Option<Responses> = None
            => Or("inherit", Choice::<Responses>::ANY), Open, reach = Reach::Pool, fit = YES;
        /// Browsers without a window.
        "pool.headless" headless: bool = true => Switch, Open, alias = Some("HEADLESS"), fit = RUNS;
        /// Which browser to start; `auto` takes the best Chromium that is installed. `firefox` and `webkit` hold one
        /// session each.
        "pool.browser" browser: Browser = Browser::Auto => Choice::<Browser>::ANY, Limit, fit = RUNS;
        /// The browser's executable, instead of the one that `pool.browser` finds.
        "pool.executable_path" executable_path: Option<PathBuf> = None => Or("unset", Place), Guarded, fit = RUNS;
        /// Runs engine and browser on Windows, from within WSL: `cmd.exe` starts the pinned engine there.
        "pool.wsl_windows" wsl_windows: bool = false => Switch, Limit, fit = RUNS;
        /// Uses a browser that is already open, through the Playwright extension installed in it.
        "pool.extension" extension: bool = false
            => Switch, Guarded, fit = no("it is another way to reach a running browser: as a pool, not here");
        /// Where the profiles of instances that are not isolated are kept, each in a folder named by its ID; under
        /// `data_dir` when unset.
        "pool.user_data_dir" user_data_dir: Option<PathBuf> = None => Or("unset", Place), Guarded, fit = RUNS;
        /// A file with cookies and local storage, as Playwright saves it, that isolated sessions begin with.
        "pool.storage_state" storage_state: Option<PathBuf> = None
            => Or("unset", Place), Guarded, fit = ISOLATED, only = PLAYWRIGHT;
        /// Starts the browser without its process sandbox; `auto` does so only when running as root, where Chromium
        /// refuses to start with it.
        "pool.no_sandbox" no_sandbox: Option<bool> = None => Or("auto", Switch), Guarded, fit = RUNS;
        /// The size of a new page, in CSS pixels.
        "pool.viewport_size" viewport_size: Viewport = Viewport { width: 1280, height: 720 }
            => Size, Open, fit = ISOLATED;
        /// Further groups of the engine's tools.
        "pool.caps" caps: Vec<Cap> = Vec::new()
            => Many(Choice::<Cap>::ANY), Guarded, reach = Reach::Pool, fit = YES, only = PLAYWRIGHT;
        /// Scripts that run in every page before its own.
        "pool.init_script" init_script: Vec<PathBuf> = Vec::new()
            => Many(Place), Guarded, fit = ISOLATED, only = PLAYWRIGHT;
        /// The only origins that pages may load from; empty means all. A filter of the engine's, not a wall:
        /// redirects pass it.
        "pool.allowed_origins" allowed_origins: Vec<String> = Vec::new() => Origins, Limit, fit = ISOLATED;
        /// Origins that pages may not load from; beats `pool.allowed_origins`.
        "pool.blocked_origins" blocked_origins: Vec<String> = Vec::new() => Origins, Limit, fit = ISOLATED;
        /// The proxy that browsers reach the web through, behind greenroom's own.
        "pool.proxy_server" proxy_server: Option<String> = None => Or("unset", ProxyUrl), Guarded, fit = RUNS;
        /// Keeps a log of each session in its folder, as the engine writes it.
        "pool.save_session" save_session: bool = false => Switch, Limit, fit = YES, only = PLAYWRIGHT;
        /// Where files that the engine names itself are put, instead of the session's own folder.
        "pool.output_dir" output_dir: Option<PathBuf> = None => Or("unset", Place), Guarded, fit = YES;
        /// Whether answers carry images: `allow`, `omit`, or `only` for the image without its text.
        "pool.image_responses" image_responses: ImageResponses = ImageResponses::Allow
            => Choice::<ImageResponses>::ANY, Limit, fit = YES, only = PLAYWRIGHT;
        /// How long one action, such as a click, may take in the engine; the engine's own default when unset.
        "pool.timeout_action" timeout_action: Option<Duration> = None
            => Or("unset", Span::FROM_ZERO), Open, fit = YES, only = PLAYWRIGHT;
        /// How long a navigation may take in the engine; the engine's own default when unset.
        "pool.timeout_navigation" timeout_navigation: Option<Duration> = None
            => Or("unset", Span::FROM_ZERO), Open, fit = YES, only = PLAYWRIGHT;
        /// How long a page is let settle after an action, however little it does. When unset, greenroom observes the
        /// page and goes on as soon as no timer, request, navigation or animation of that action is left, after 500
        /// ms at the latest.
        "pool.timeout_settle" timeout_settle: Option<Duration> = None
            => Or("unset", Span::FROM_ZERO), Open, fit = YES, only = PLAYWRIGHT;
        /// The user agent that browsers send, instead of their own.
        "pool.user_agent" user_agent: Option<String> = None => Or("unset", Text("TEXT")), Open, fit = ISOLATED;
        /// Accepts invalid certificates.
        "pool.ignore_https_errors" ignore_https_errors: bool = false => Switch, Guarded, fit = ISOLATED;
        /// A device to emulate, by Playwright's name for it, such as `iPhone 15`.
        "pool.device" device: Option<String> = None
            => Or("unset", Text("NAME")), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// The language that pages are asked for, and that numbers and dates are written in.
        "pool.locale" locale: Option<String> = None => Or("unset", Locale), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// The time zone of pages.
        "pool.timezone" timezone: Option<String> = None
            => Or("unset", TimeZone), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// Where pages find their user to be. They are told if `pool.permissions` has `geolocation`.
        "pool.geolocation" geolocation: Option<Geolocation> = None
            => Or("unset", Position), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// What pages may do without asking. The clipboard is none of it: sessions share their browser's.
        "pool.permissions" permissions: Vec<Permission> = Vec::new()
            => Many(Choice::<Permission>::ANY), Guarded, fit = ISOLATED, only = PLAYWRIGHT;
        /// The colours that pages are asked for; `light` when unset.
        "pool.color_scheme" color_scheme: Option<ColorScheme> = None
            => Or("unset", Choice::<ColorScheme>::ANY), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// How many device pixels a CSS pixel has in each direction; 1 when unset.
        "pool.device_scale_factor" device_scale_factor: Option<Scale> = None
            => Or("unset", ScaleFactor), Open, fit = ISOLATED, only = PLAYWRIGHT;
        /// Lets scripts of the engine and of `pool.init_script` do what a page's content security policy forbids.
        "pool.bypass_csp" bypass_csp: bool = false => Switch, Guarded, fit = ISOLATED, only = PLAYWRIGHT;
        /// The attribute that test ids of locators are in; `data-testid` when unset.
        "pool.test_id_attribute" test_id_attribute: Option<String> = None
            => Or("unset", Text("NAME")), Open, fit = YES, only = PLAYWRIGHT;
        /// Shows the place and size of every element in snapshots. They get longer by half, or more.
        "pool.snapshot_boxes" snapshot_boxes: bool = false => Switch, Open, fit = YES, only = PLAYWRIGHT;
        /// The language of the code that answers show for what was done.
        "pool.codegen" codegen: Codegen = Codegen::Typescript
            => Choice::<Codegen>::ANY, Open, fit = YES, only = PLAYWRIGHT;
        /// A file of `NAME=value` lines. Answers have `<secret>NAME</secret>` where a value would stand, and agents
        /// type values by their names. The engine's convenience, not a wall: a page can show a value in another form.
        "pool.secrets_file" secrets_file: Option<PathBuf> = None
            => Or("unset", Place), Guarded, fit = YES, only = PLAYWRIGHT;
        /// Further flags for the browser, where greenroom starts it.
        "pool.browser_args" browser_args: Vec<String> = Vec::new() => BrowserArgs, Guarded, fit = RUNS;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;
    use crate::settings::kind::{Given, Written};

    /// Keys, variables and flags are each unique, and every key belongs to a declared section.
    #[test]
    fn names_are_unique() {
        let unique = |names: Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        assert!(unique(SETTINGS.iter().map(|setting| setting.key.to_owned()).collect()));
        assert!(unique(SETTINGS.iter().map(Setting::variable).collect()));
        assert!(unique(SETTINGS.iter().map(Setting::flag).collect()));
        assert!(
            SETTINGS.iter().all(|setting| SECTIONS.iter().any(|section| section.name == setting.section()))
        );
    }

    /// What a setting shows of its default is text that it reads back as the same value.
    #[test]
    fn shown_defaults_read_back() {
        let defaults = Settings::defaults(PathBuf::from("/data"));
        for setting in SETTINGS {
            let mut settings = defaults.clone();
            let shown = setting.show(&settings);
            (setting.set)(&mut settings, Given { written: Written::Text(&shown), base: Path::new("/") })
                .unwrap_or_else(|wrong| panic!("{}: {shown}: {wrong:?}", setting.key));
            assert_eq!(settings, defaults, "{}", setting.key);
        }
    }
}
