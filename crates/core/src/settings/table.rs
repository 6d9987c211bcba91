//! Every setting of greenroom. To add one, add it here; its flag, its variable, its line in `greenroom config show`
//! and its row in `docs/CONFIG.md` follow.
//!
//! The word after a setting's kind is its [`Guard`](super::Guard): what a file that merely lies in the working directory may
//! do with it. The guard has no default, so that the author of a new setting must choose one. A pool setting also says
//! whether it applies to a browser that already runs (`fit`), and which engine alone has it, if only one does (`only`).
//!
//! `check.rs` has the conditions between settings.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use super::{
    address::ListenAddress,
    api_keys::{ApiKeys, ConfiguredApiKey},
    attached_browsers::{
        AttachedBrowser,
        fits::{CUSTOM, ISOLATED, ONE, RUNS, YES, no},
    },
    browser_args::BrowserArgs,
    bytes::Bytes,
    choice::{
        AutoOnOff, Browser, Cap, Choice, Codegen, ColorScheme, EngineKind, ImageResponses, NetworkPreset,
        Permission, Pictures, Responses, Scope, ToolProfile,
    },
    cores::{CoreCount, Cores},
    declared_pools::DeclaredPool,
    duration::Span,
    emulation::{GeoPosition, Geolocation, Locale, Scale, ScaleFactor, TimeZone},
    list::{Argv, Globs, Many},
    network::NetworkRules,
    path::{FilePath, ProgramPath},
    proxies::{ProxyNetworks, WebOrigin},
    server_url::ServerUrl,
    setting_macro::{
        Guard::{Guarded, Limit, LimitWith, Open},
        Section, Setting, SettingLevel, settings,
    },
    value_type::{LogFilter, OrWord, Switch, TextLine, ValueType, WholeNumber},
    viewport::{Viewport, ViewportSize},
    web::{Origins, ProxyUrl},
};
use crate::{
    forwarded::TrustedProxies,
    lease::{INSTANCES_MAX, SLOTS_MAX, Sharing, Strategy},
    network::NetworkRule,
};

/// The engine that alone has a setting.
const PLAYWRIGHT: Option<EngineKind> = Some(EngineKind::Playwright);

settings! {
    defaults(data_dir: PathBuf)

    /// The data folder, the log, and what agents get of answers.
    {
        /// The folder where greenroom keeps engines, caches, profiles, records and the files of running processes.
        "data_dir" data_dir: PathBuf = data_dir => FilePath, Guarded;
        /// What greenroom logs to stderr: a level, or a filter such as `info,greenroom_fleet=debug`.
        "log" log: String = "warn".to_owned() => LogFilter, Open;
        /// How much of an engine's answer greenroom sends to the agent: `auto` sends a page whole unless it has just
        /// sent the page to this agent, and what changed on it otherwise; `inline` always sends the answer with its
        /// page snapshot, up to `inline_tokens`; `refs` sends a summary and a `ref_id`, with which the agent reads the
        /// rest through `get_content`; `raw` sends the engine's answer byte for byte. A call can choose another with
        /// its `mode` parameter.
        "responses" responses: Responses = Responses::Auto => Choice::<Responses>::ANY, Open;
        /// How many tokens of an answer greenroom sends with `auto` and `inline`, by its own estimate. greenroom folds
        /// repeated parts of a longer snapshot, and sends the beginning of a longer text. The answer then says how much is
        /// missing and how to get it.
        "inline_tokens" inline_tokens: usize = 8_000 => WholeNumber(200..=1_000_000), Open;
        /// How pictures in an answer reach the agent: `inline` sends them as the engine made them; `small` scales a picture
        /// down whose longest side has more pixels than `picture_side_pixels`; `link` sends a link to a resource instead,
        /// which the agent reads if it needs the picture. The record keeps the whole picture. `raw` responses have it as
        /// the engine made it. A call can choose another with its `pictures` parameter.
        "pictures" pictures: Pictures = Pictures::Small => Choice::<Pictures>::ANY, Open;
        /// The longest side, in pixels, of a picture that greenroom sends with `small`. Vision models scale larger pictures
        /// down themselves or bill them as more tokens, and some APIs refuse pictures with a side above 8,000.
        "picture_side_pixels" picture_side_pixels: usize = 1_568 => WholeNumber(64..=16_384), Open;
        /// The Node.js executable that runs the engine. When unset, greenroom looks for `node` on `PATH`.
        "node" node: Option<PathBuf> = None => OrWord("unset", ProgramPath), Guarded;
    }

    /// `greenroom serve`: one server for many clients.
    server: Server {
        /// The address and port on which `greenroom serve` listens; with port 0 the system picks a free port.
        /// greenroom refuses addresses other than loopback unless there are API keys.
        "server.listen" listen: SocketAddr = SocketAddr::from((Ipv4Addr::LOCALHOST, 34501)) => ListenAddress, Open;
        /// Further host names, without ports, that greenroom accepts in the `Host` header, such as the name of a
        /// reverse proxy in front of it.
        "server.allowed_hosts" allowed_hosts: Vec<String> = Vec::new() => Many(TextLine("HOST")), Guarded;
        /// The URL by which clients reach the server, such as that of a reverse proxy. Links in answers begin with it, and
        /// `Host` may be its host. When unset, links have the address that the server listens on.
        "server.public_url" public_url: Option<String> = None => OrWord("unset", WebOrigin), Guarded;
        /// Origins of web pages that may use the server from a browser, with an API key. Pages of all other origins are
        /// refused.
        "server.allowed_origins" allowed_origins: Vec<String> = Vec::new() => Many(WebOrigin), Guarded;
        /// Reverse proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` headers greenroom believes. It ignores those of all
        /// others.
        "server.trusted_proxies" trusted_proxies: TrustedProxies = TrustedProxies::default() => ProxyNetworks, Guarded;
        /// The file with the TLS certificate of the server, in PEM, followed by its chain. With it the server speaks
        /// `https` only. greenroom reads the file again when it changes.
        "server.tls_cert" tls_cert: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded;
        /// The file with the private key of `server.tls_cert`, in PEM, without a password.
        "server.tls_key" tls_key: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded;
        /// API keys as `name:key`, for containers; `greenroom keys` makes others, in the data folder. A key has at least 16
        /// characters; `name[scope+scope]:key` gives it other scopes than `browse`, `watch` and `control`. Once there is a
        /// key, every request over the network needs one.
        "server.api_keys" api_keys: Vec<ConfiguredApiKey> = Vec::new() => ApiKeys, Guarded, alias = Some("GREENROOM_API_KEYS");
        /// Whether `/ready` with its details and `/metrics` need no API key. Otherwise they need one, and `/metrics` and the
        /// details one with the scope `admin`.
        "server.public_probes" public_probes: bool = false => Switch, Guarded;
        /// Whether programs of other users of this machine may connect to the server's port. Without it greenroom serves
        /// programs of its own user and of root only. A reverse proxy that runs as another user needs it, and so does a
        /// client outside of greenroom's container; every user of the machine can then use the server's browsers.
        "server.allow_other_users" allow_other_users: bool = false => Switch, Guarded;
        /// How long a server that receives a stop signal lets running calls go on. A second signal ends them at once.
        "server.drain_timeout" drain_timeout: Duration = Duration::from_secs(5) => Span::FROM_ZERO, Open;
        /// A server ends by itself after this time without an open session, a connected client, a running call or a
        /// command. A server that a command such as `greenroom open` started ends after 10 minutes by default.
        "server.idle_exit" idle_exit: Option<Duration> = None => OrWord("never", Span::POSITIVE), Open;
    }

    /// A session is an isolated browser that an agent uses by its `sessionId`.
    sessions: Sessions {
        /// Which browser a call without `sessionId` uses: with `connection`, the session that belongs to its MCP
        /// connection; with `call`, any free browser, and the next such call of the same owner may find its page and
        /// cookies; with `explicit`, none: greenroom refuses the call. If pools or browsers to attach to are
        /// configured, the default is `call`.
        "sessions.scope" scope: Scope = Scope::Connection => Choice::<Scope>::ANY, Limit;
        /// greenroom closes a session that has had no call for this long. A running call keeps its session open.
        "sessions.idle_timeout" idle_timeout: Duration = Duration::from_secs(300) => Span::POSITIVE, Limit;
        /// greenroom closes a session that is older than this, even if it is in use.
        "sessions.max_lifetime" max_lifetime: Option<Duration> = None => OrWord("off", Span::POSITIVE), Limit;
        /// How much disk space the files of a session may take: downloads, and files that its tools write. Over this
        /// limit the browser cancels the session's downloads and starts no new ones, and greenroom refuses tools that
        /// write files. Traces, and videos while they are recorded, do not count. Pages may store as much again in a
        /// temporary profile. A permanent profile has the browser's own quota.
        "sessions.disk_bytes_max" disk_bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
    }

    /// What one owner may use at once. The owner `local`, to which stdio and servers without keys belong, has no limit here.
    limits: OwnerLimitSettings {
        /// How many sessions an owner may have open. greenroom refuses further ones until the owner closes one.
        "limits.sessions_per_owner" sessions_per_owner: Option<usize> = Some(3)
            => OrWord("unlimited", WholeNumber(1..=100_000)), Guarded;
        /// How many calls of an owner may wait or run at once.
        "limits.calls_per_owner" calls_per_owner: Option<usize> = Some(128)
            => OrWord("unlimited", WholeNumber(1..=100_000)), Guarded;
        /// How many calls of an owner may wait for a browser, or for earlier calls of their session. As many wait for one
        /// session at most.
        "limits.waiting_calls_per_owner" waiting_calls_per_owner: Option<usize> = Some(64)
            => OrWord("unlimited", WholeNumber(1..=100_000)), Guarded;
    }

    /// What greenroom records of every call, and for how long.
    records: Records {
        /// Whether greenroom records calls. Without records agents cannot read an answer again, so greenroom neither
        /// shortens answers nor sends them as `refs`.
        "records.enabled" enabled: bool = true => Switch, Guarded;
        /// The folder of the database `records.db` and of the blobs; `data_dir` when unset. greenroom processes that
        /// share this folder must share `data_dir` too.
        "records.dir" dir: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded;
        /// Names of tool arguments whose values greenroom does not record. It never records values of arguments that
        /// are named like secrets: passwords, tokens, keys.
        "records.redact" redact: Vec<String> = Vec::new() => Many(TextLine("NAME")), Guarded;
        /// greenroom removes records that are older than this.
        "records.max_age" max_age: Duration = Duration::from_secs(7 * 24 * 3600) => Span::POSITIVE, Guarded;
        /// When the database is larger than this, greenroom removes the oldest records.
        "records.bytes_max" bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
    }

    /// Blobs: images, PDFs, downloads and other files that greenroom keeps of answers.
    blobs: Blobs {
        /// greenroom removes a blob that no client has read for this long.
        "blobs.ttl" ttl: Duration = Duration::from_secs(24 * 3600) => Span::POSITIVE, Guarded;
        /// When all blobs together are larger than this, greenroom removes those that were not used for the longest
        /// time.
        "blobs.bytes_max" bytes_max: u64 = 1 << 30 => Bytes(1 << 20..=1 << 50), Guarded;
        /// The largest file that a program may upload at `/api/blobs`, for `browser_file_upload`.
        "blobs.upload_bytes_max" upload_bytes_max: u64 = 64 << 20 => Bytes(1 << 10..=256 << 20), Guarded;
        /// Whether each pool has its own folder of blobs. If not, greenroom keeps equal blobs of several pools once.
        "blobs.per_pool" per_pool: bool = false => Switch, Limit;
    }

    /// The audit log: refused connections, in `audit.jsonl` in the data folder.
    audit: AuditRetention {
        /// greenroom removes lines of the audit log that are older than this, a day later at most.
        "audit.max_age" max_age: Duration = Duration::from_secs(30 * 24 * 3600) => Span::POSITIVE, Guarded;
        /// When the audit log is larger than this, greenroom removes the oldest lines.
        "audit.bytes_max" bytes_max: u64 = 64 << 20 => Bytes(1 << 20..=1 << 50), Guarded;
        /// When the audit log's file is larger than this, greenroom begins a new one; it removes old lines by whole files.
        "audit.file_bytes_max" file_bytes_max: u64 = 8 << 20 => Bytes(1 << 16..=1 << 40), Guarded;
    }

    /// Which addresses browsers may reach. greenroom judges the address that it really dials, for every connection of
    /// every browser that it starts. No setting permits cloud metadata services or greenroom's own ports.
    network: Network {
        /// What browsers may reach unless a rule says otherwise: with `open`, every address; with `guarded`, public
        /// addresses only, so neither this machine nor the local network. `auto` is `guarded` if there are API
        /// keys or if `server.listen` is not on loopback, and `open` otherwise. A `greenroom mcp` that starts its own
        /// browsers does not look at keys.
        "network.preset" preset: Option<NetworkPreset> = None
            => OrWord("auto", Choice::<NetworkPreset>::ANY), Guarded;
        /// What browsers may reach although `guarded` refuses it. A rule is a host, a host with `*` in it, an address or
        /// a network, each with an optional port.
        "network.allow" allow: Vec<NetworkRule> = Vec::new() => NetworkRules, Guarded;
        /// What browsers may not reach, even if `network.allow` has it.
        "network.deny" deny: Vec<NetworkRule> = Vec::new() => NetworkRules, Guarded;
        /// Whether an upstream proxy (`pool.proxy_server`) gets names and resolves them itself. If not, greenroom resolves
        /// each name, judges its addresses, and sends the upstream an address. `auto` trusts the upstream of pools
        /// whose preset is `open` and that deny nothing.
        "network.trust_upstream" trust_upstream: Option<bool> = None => OrWord("auto", Switch), Guarded;
    }

    /// Which tools agents may see and call.
    tools: Tools {
        /// Which tools agents are shown, and in which words: `compact` shows all tools in few words; `core` shows the
        /// few tools that most tasks need, and `more_tools`, which describes and runs the others; `full` shows all
        /// tools in the engine's own words. Agents may call every allowed tool with each of them.
        "tools.profile" profile: ToolProfile = ToolProfile::Compact => Choice::<ToolProfile>::ANY, Open;
        /// Agents may use only tools whose names match one of these globs. An empty list allows all.
        "tools.allow" allow: Vec<String> = Vec::new() => Globs, Guarded;
        /// Agents may not use tools whose names match one of these globs, even if `tools.allow` has them.
        "tools.deny" deny: Vec<String> = Vec::new() => Globs, Guarded;
        /// Offers also the tools that run code in the engine's own process, outside the browser's sandbox. Requires
        /// `pool.slots = 1`, because such code reaches every session of its process. Has no effect on the tools of a
        /// custom engine.
        "tools.unsafe" r#unsafe: bool = false => Switch, Guarded;
        /// Offers also the tools that web pages declare (WebMCP).
        "tools.webmcp" webmcp: bool = false => Switch, Guarded;
    }

    /// Running browsers that greenroom attaches to, as `[[browsers]]`, `--browserUrl` and `--wsEndpoint` name them.
    attach: Attach {
        /// Whether agents may attach and remove browsers while greenroom runs: with `auto`, agents on this machine
        /// may, if browsers to attach to are configured; with `on`, every agent may, also over HTTP; with `off`, none
        /// may.
        "attach.changes" changes: AutoOnOff = AutoOnOff::Auto => Choice::<AutoOnOff>::ANY, Guarded;
        /// Whether greenroom connects to all configured browsers when it starts, or to each with its first call.
        /// `auto` connects at the start of `greenroom serve` only.
        "attach.eager" eager: AutoOnOff = AutoOnOff::Auto => Choice::<AutoOnOff>::ANY, Open;
        /// How long greenroom waits after repeated failed attempts before it tries to reach a browser again.
        "attach.cooldown" cooldown: Duration = Duration::from_secs(60) => Span::POSITIVE, Open;
    }

    /// A pool is a group of instances; an instance is a running engine with its browser. If you declare pools, these
    /// settings are their defaults. If not, they describe the one built-in pool.
    pool: Pool {
        /// The MCP server that drives the browsers: `playwright` is the pinned `@playwright/mcp`, `devtools` is the
        /// pinned `chrome-devtools-mcp`, `custom` is any MCP server that `pool.command` starts or that listens at
        /// `pool.url`.
        "pool.engine" engine: EngineKind = EngineKind::Playwright
            => Choice::<EngineKind>::ANY, LimitWith(&["tools.allow", "tools.deny"]), reach = SettingLevel::Pool, applies_to = YES;
        /// The program and arguments that start the custom engine. greenroom runs it without a shell.
        "pool.command" command: Vec<String> = Vec::new()
            => Argv, Guarded, reach = SettingLevel::Pool,
            applies_to = no("it starts a custom engine; to start this browser, set `start_command`");
        /// The address of a custom engine that already runs and speaks MCP over HTTP, instead of `pool.command`.
        "pool.url" url: Option<String> = None
            => OrWord("unset", ServerUrl::MCP), Guarded, reach = SettingLevel::Pool, applies_to = CUSTOM;
        /// Whether each session has its own browser context, which ends with the session. If not, each instance is
        /// one browser with a permanent profile, for one owner.
        "pool.isolated" isolated: bool = true => Switch, Limit, applies_to = YES;
        /// How many isolated sessions one instance holds at once; 1 in declared pools. With the custom engine each
        /// session is a process of its own, or an MCP session at `pool.url`. With the devtools engine each session is
        /// a Node process and a browser of its own.
        "pool.slots" slots: usize = 16 => WholeNumber(1..=SLOTS_MAX), Limit, applies_to = YES;
        /// How many instances may run at once. greenroom starts another one when all slots are taken.
        "pool.instances_max" instances_max: usize = 8
            => WholeNumber(1..=INSTANCES_MAX), Limit, reach = SettingLevel::BuiltIn, applies_to = ONE;
        /// How many browser contexts greenroom keeps open in advance, so that a new session does not wait for one.
        /// Each takes a free slot, and greenroom starts an instance for it if necessary. `auto` is 1 in the built-in
        /// pool of `greenroom serve`, and 0 otherwise.
        "pool.warm" warm: Option<usize> = None
            => OrWord("auto", WholeNumber(0..=64)), Limit, reach = SettingLevel::Pool,
            applies_to = no("greenroom opens nothing in a running browser in advance");
        /// Whether instances of declared pools start with the first call that needs them, instead of when greenroom
        /// starts.
        "pool.lazy" lazy: bool = false => Switch, Open, applies_to = no("`attach.eager` says when browsers are connected");
        /// greenroom stops an instance that no session has used for this long. With `pool.warm` it keeps the last
        /// one.
        "pool.instance_idle" instance_idle: Duration = Duration::from_secs(300)
            => Span::POSITIVE, Limit, reach = SettingLevel::BuiltIn, applies_to = ONE;
        /// How long a call waits for a free slot. With `0` greenroom refuses the call at once if all slots are taken. If an
        /// instance is about to start, the call waits for it a little longer.
        "pool.lease_timeout" lease_timeout: Duration = Duration::from_secs(30)
            => Span::FROM_ZERO, Open, reach = SettingLevel::Pool, applies_to = YES;
        /// Which free instance a call gets that names none: `fifo` picks the one that became free first,
        /// `round_robin` the next in turn, `least_used` the one with the fewest leases, `sticky` the one that the
        /// same session or owner used last. `auto` is `fifo` in declared pools; the built-in pool fills one instance
        /// before the next.
        "pool.lease_strategy" lease_strategy: Option<Strategy> = None
            => OrWord("auto", Choice::<Strategy>::ANY), Open, reach = SettingLevel::Pool, applies_to = ONE;
        /// Who may use one instance: with `owner`, one owner at a time, and greenroom restarts the instance before
        /// another owner gets it; with `all`, every owner, in browser contexts of their own. `auto` is `owner`.
        "pool.share" share: Option<Sharing> = None
            => OrWord("auto", Choice::<Sharing>::ANY), Guarded, reach = SettingLevel::Pool, applies_to = YES;
        /// How often greenroom checks whether each instance answers.
        "pool.health_interval" health_interval: Duration = Duration::from_secs(20) => Span::POSITIVE, Open, applies_to = YES;
        /// How long an instance may take to answer a health check.
        "pool.health_timeout" health_timeout: Duration = Duration::from_secs(5) => Span::POSITIVE, Open, applies_to = YES;
        /// How many times within five minutes greenroom restarts an instance before it gives it up as failed.
        "pool.restarts" restarts: usize = 3
            => WholeNumber(0..=100), Open, applies_to = no("greenroom reconnects to a lost browser until it is back; see `attach.cooldown`");
        /// How long a call may take; 30 s in declared pools. A call that asks for a longer wait itself extends it.
        "pool.timeout" timeout: Duration = Duration::from_secs(90) => Span::POSITIVE, Open, applies_to = YES;
        /// Replaces the setting `responses` for this pool; `inherit` takes its value.
        "pool.responses" responses: Option<Responses> = None
            => OrWord("inherit", Choice::<Responses>::ANY), Open, reach = SettingLevel::Pool, applies_to = YES;
        /// Replaces the setting `pictures` for this pool; `inherit` takes its value.
        "pool.pictures" pictures: Option<Pictures> = None
            => OrWord("inherit", Choice::<Pictures>::ANY), Open, reach = SettingLevel::Pool, applies_to = YES;
        /// Whether browsers run without a window.
        "pool.headless" headless: bool = true => Switch, Open, alias = Some("HEADLESS"), applies_to = RUNS;
        /// Which browser greenroom starts; `auto` is the best Chromium that is installed. `firefox` and `webkit` hold
        /// one session per instance.
        "pool.browser" browser: Browser = Browser::Auto => Choice::<Browser>::ANY, Limit, applies_to = RUNS;
        /// The browser's executable, instead of the one that greenroom finds for `pool.browser`.
        "pool.executable_path" executable_path: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded, applies_to = RUNS;
        /// Runs engine and browser on Windows, from within WSL: `cmd.exe` starts the pinned engine there.
        "pool.wsl_windows" wsl_windows: bool = false => Switch, Limit, applies_to = RUNS;
        /// Uses a browser that is already open, through the Playwright extension installed in it.
        "pool.extension" extension: bool = false
            => Switch, Guarded, applies_to = no("the extension is a setting of pools, not of attached browsers");
        /// The folder for the profiles of instances that are not isolated. Each instance has a subfolder named by its
        /// ID. When unset, the folder is in `data_dir`.
        "pool.user_data_dir" user_data_dir: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded, applies_to = RUNS;
        /// A file of cookies and local storage, in Playwright's format, with which isolated sessions begin.
        "pool.storage_state" storage_state: Option<PathBuf> = None
            => OrWord("unset", FilePath), Guarded, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// Whether greenroom starts the browser without its process sandbox. `auto` does so only as root, because
        /// Chromium refuses to start with its sandbox as root.
        "pool.no_sandbox" no_sandbox: Option<bool> = None => OrWord("auto", Switch), Guarded, applies_to = RUNS;
        /// The size of a new page, in CSS pixels.
        "pool.viewport_size" viewport_size: Viewport = Viewport { width: 1280, height: 720 }
            => ViewportSize, Open, applies_to = ISOLATED;
        /// Optional groups of engine tools to switch on.
        "pool.caps" caps: Vec<Cap> = Vec::new()
            => Many(Choice::<Cap>::ANY), Guarded, reach = SettingLevel::Pool, applies_to = YES, only = PLAYWRIGHT;
        /// Scripts that run in every page before the page's own scripts.
        "pool.init_script" init_script: Vec<PathBuf> = Vec::new()
            => Many(FilePath), Guarded, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The only origins from which pages may load; an empty list allows all. This filter of the engine is not a
        /// security boundary: redirects pass it.
        "pool.allowed_origins" allowed_origins: Vec<String> = Vec::new() => Origins, Limit, applies_to = ISOLATED;
        /// Origins from which pages may not load, even if `pool.allowed_origins` has them.
        "pool.blocked_origins" blocked_origins: Vec<String> = Vec::new() => Origins, Limit, applies_to = ISOLATED;
        /// An HTTP proxy through which greenroom's own proxy sends the browsers' traffic.
        "pool.proxy_server" proxy_server: Option<String> = None => OrWord("unset", ProxyUrl), Guarded, applies_to = RUNS;
        /// Replaces the setting `network.preset` for this pool; `inherit` takes its value.
        "pool.network_preset" network_preset: Option<NetworkPreset> = None
            => OrWord("inherit", Choice::<NetworkPreset>::ANY), Guarded, reach = SettingLevel::Pool, applies_to = RUNS;
        /// Replaces the setting `network.allow` for this pool; `inherit` takes its value.
        "pool.network_allow" network_allow: Option<Vec<NetworkRule>> = None
            => OrWord("inherit", NetworkRules), Guarded, reach = SettingLevel::Pool, applies_to = RUNS;
        /// What the browsers of this pool may not reach, in addition to the setting `network.deny`.
        "pool.network_deny" network_deny: Option<Vec<NetworkRule>> = None
            => OrWord("inherit", NetworkRules), Guarded, reach = SettingLevel::Pool, applies_to = RUNS;
        /// Whether the engine writes its log of each session into the session's folder.
        "pool.save_session" save_session: bool = false => Switch, Limit, applies_to = YES, only = PLAYWRIGHT;
        /// The folder for files that the engine names itself, instead of the session's own folder.
        "pool.output_dir" output_dir: Option<PathBuf> = None => OrWord("unset", FilePath), Guarded, applies_to = YES;
        /// Whether answers contain images: `allow`, `omit`, or `only` for images without the text.
        "pool.image_responses" image_responses: ImageResponses = ImageResponses::Allow
            => Choice::<ImageResponses>::ANY, Limit, applies_to = YES, only = PLAYWRIGHT;
        /// How long one action, such as a click, may take in the engine; the engine's own default when unset.
        "pool.timeout_action" timeout_action: Option<Duration> = None
            => OrWord("unset", Span::FROM_ZERO), Open, applies_to = YES, only = PLAYWRIGHT;
        /// How long a navigation may take in the engine; the engine's own default when unset.
        "pool.timeout_navigation" timeout_navigation: Option<Duration> = None
            => OrWord("unset", Span::FROM_ZERO), Open, applies_to = YES, only = PLAYWRIGHT;
        /// How long the engine always waits after an action. When unset, greenroom observes the page, and the answer
        /// follows as soon as no timer, request, navigation or animation of that action is pending, after 500 ms at
        /// the latest.
        "pool.timeout_settle" timeout_settle: Option<Duration> = None
            => OrWord("unset", Span::FROM_ZERO), Open, applies_to = YES, only = PLAYWRIGHT;
        /// The `User-Agent` that browsers send, instead of their own.
        "pool.user_agent" user_agent: Option<String> = None => OrWord("unset", TextLine("TEXT")), Open, applies_to = ISOLATED;
        /// Whether browsers accept invalid TLS certificates.
        "pool.ignore_https_errors" ignore_https_errors: bool = false => Switch, Guarded, applies_to = ISOLATED;
        /// The device that pages emulate, by Playwright's name for it, such as `iPhone 15`.
        "pool.device" device: Option<String> = None
            => OrWord("unset", TextLine("NAME")), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The language that browsers ask sites for and in which they format numbers and dates.
        "pool.locale" locale: Option<String> = None => OrWord("unset", Locale), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The time zone of pages.
        "pool.timezone" timezone: Option<String> = None
            => OrWord("unset", TimeZone), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The position that browsers report to pages. Pages learn it only if `pool.permissions` has `geolocation`.
        "pool.geolocation" geolocation: Option<Geolocation> = None
            => OrWord("unset", GeoPosition), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// Permissions that pages have without asking. The clipboard is not among them: Chromium has one clipboard
        /// for all sessions of a browser. Copying and pasting work without a permission.
        "pool.permissions" permissions: Vec<Permission> = Vec::new()
            => Many(Choice::<Permission>::ANY), Guarded, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The colour scheme that browsers report to pages; `light` when unset.
        "pool.color_scheme" color_scheme: Option<ColorScheme> = None
            => OrWord("unset", Choice::<ColorScheme>::ANY), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// How many device pixels one CSS pixel has in each direction; 1 when unset.
        "pool.device_scale_factor" device_scale_factor: Option<Scale> = None
            => OrWord("unset", ScaleFactor), Open, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// Whether scripts of the engine and of `pool.init_script` may do what a page's content security policy
        /// forbids.
        "pool.bypass_csp" bypass_csp: bool = false => Switch, Guarded, applies_to = ISOLATED, only = PLAYWRIGHT;
        /// The attribute in which locators look for test ids; `data-testid` when unset.
        "pool.test_id_attribute" test_id_attribute: Option<String> = None
            => OrWord("unset", TextLine("NAME")), Open, applies_to = YES, only = PLAYWRIGHT;
        /// Whether snapshots show the position and size of every element. They become half as long again, or longer.
        "pool.snapshot_boxes" snapshot_boxes: bool = false => Switch, Open, applies_to = YES, only = PLAYWRIGHT;
        /// The programming language in which answers show the code of an action.
        "pool.codegen" codegen: Codegen = Codegen::Typescript
            => Choice::<Codegen>::ANY, Open, applies_to = YES, only = PLAYWRIGHT;
        /// A file of `NAME=value` lines. The engine replaces these values by `<secret>NAME</secret>` in answers, and
        /// agents type a value by its name. This is not a security boundary: a page can show a value in another form.
        "pool.secrets_file" secrets_file: Option<PathBuf> = None
            => OrWord("unset", FilePath), Guarded, applies_to = YES, only = PLAYWRIGHT;
        /// How much memory a Chromium that greenroom starts may take, with all of its processes and the pages of all its
        /// sessions; shared memory counts, and Node does not. Over this limit greenroom ends the page that takes most:
        /// that tab is lost, and other tabs and sessions go on. A session whose pages have stored too much, so that the
        /// end of its page frees little, is lost. If no page can be blamed, the browser ends. `auto` is 2 GiB, and less
        /// where browsers with `auto` would together take more than half of the memory of the machine or container.
        /// All `pool.slots` sessions of a browser share the limit: raise it, or lower `pool.slots`, for large pages.
        "pool.memory_bytes_max" memory_bytes_max: Option<u64> = None
            => OrWord("auto", Bytes(1 << 28..=1 << 50)), Guarded, applies_to = RUNS;
        /// How many cores a Chromium that greenroom starts may keep busy in the long run, with the pages of all its
        /// sessions. No page is ended for this. The page that uses most gets a lower priority, step by step, so it
        /// keeps its speed as long as nothing else needs the processor. Where greenroom may make cgroups, the kernel
        /// also holds the browser to the limit.
        "pool.cpu_cores_max" cpu_cores_max: Option<Cores> = Some(Cores::ONE)
            => OrWord("off", CoreCount), Guarded, applies_to = RUNS;
        /// How many processes a Chromium that greenroom starts may have: about eight of its own, and one or more for
        /// each tab. Over this limit greenroom ends the newest pages, until a quarter of the limit is free.
        "pool.processes_max" processes_max: usize = 512 => WholeNumber(4..=4_096), Guarded, applies_to = RUNS;
        /// How many files and connections each process of a Chromium that greenroom starts may have open
        /// (`RLIMIT_NOFILE`). greenroom's own limit also holds for its browsers.
        "pool.open_files_max" open_files_max: usize = 8_192
            => WholeNumber(64..=1 << 20), Guarded, applies_to = RUNS;
        /// How much disk space the profile of a Chromium that greenroom starts may take, temporary or permanent. Over
        /// this limit the browser ends, and a permanent profile is not opened again until it is smaller or the limit is
        /// raised. `sessions.disk_bytes_max` limits downloads, and what pages store in a temporary profile.
        "pool.profile_bytes_max" profile_bytes_max: Option<u64> = Some(8 << 30)
            => OrWord("off", Bytes(1 << 26..=1 << 50)), Guarded, applies_to = RUNS;
        /// Further command-line flags for browsers that greenroom starts.
        "pool.browser_args" browser_args: Vec<String> = Vec::new() => BrowserArgs, Guarded, applies_to = RUNS;
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;
    use crate::settings::value_type::{GivenForm, GivenValue};

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
    fn shown_defaults_parse_to_the_same_value() {
        let defaults = Settings::defaults(PathBuf::from("/data"));
        for setting in SETTINGS {
            let mut settings = defaults.clone();
            let shown = setting.show(&settings);
            (setting.set)(
                &mut settings,
                GivenValue { written: GivenForm::Text(&shown), base: Path::new("/") },
            )
            .unwrap_or_else(|wrong| panic!("{}: {shown}: {wrong:?}", setting.key));
            assert_eq!(settings, defaults, "{}", setting.key);
        }
    }
}
