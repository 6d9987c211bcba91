//! Pairs of keys that do not go together, as data.

use crate::{
    page_size,
    settings::{
        SETTINGS,
        attached_browsers::AppliesTo,
        choice::{Browser, EngineKind},
        emulation::Scale,
        engine_facts::Attaching,
        setting_macro::Setting,
        table::Pool,
    },
};

/// Two keys of a pool that do not go together.
pub(super) struct KeyRule {
    pub keys: [&'static str; 2],
    pub broken: fn(&Pool) -> bool,
    /// What to do; keys are in braces.
    pub hint: &'static str,
}

const DEFAULT_CONTEXT: &str = "set `{isolated}` to `true`, and neither `{extension}` nor `{wsl_windows}`: it is set on contexts \
                               that the engine makes";

/// For pools and attached browsers.
pub(super) const RULES: &[KeyRule] = &[
    KeyRule {
        keys: ["engine", "command"],
        broken: |pool| pool.engine.facts().is_user_supplied && pool.command.is_empty() && pool.url.is_none(),
        hint: "set `{command}` to the program of the MCP server and its arguments, or `{url}` to its address",
    },
    KeyRule {
        keys: ["command", "url"],
        broken: |pool| !pool.command.is_empty() && pool.url.is_some(),
        hint: "remove one of them: greenroom either starts the engine or connects to a running one",
    },
    KeyRule {
        keys: ["command", "engine"],
        broken: |pool| !pool.engine.facts().is_user_supplied && !pool.command.is_empty(),
        hint: "set `{engine}` to `custom`, or leave `{command}` out",
    },
    KeyRule {
        keys: ["url", "engine"],
        broken: |pool| !pool.engine.facts().is_user_supplied && pool.url.is_some(),
        hint: "set `{engine}` to `custom`, or leave `{url}` out",
    },
    KeyRule {
        keys: ["engine", "browser"],
        broken: |pool| !pool.engine.facts().takes_other_browsers && is_engines_own(pool.browser),
        hint: "set `{engine}` to `playwright`, or leave `{browser}` out: only that engine drives it",
    },
    KeyRule {
        keys: ["engine", "extension"],
        broken: |pool| !pool.engine.facts().takes_other_browsers && pool.extension,
        hint: "set `{engine}` to `playwright`: only that engine supports the extension",
    },
    KeyRule {
        keys: ["engine", "wsl_windows"],
        broken: |pool| !pool.engine.facts().takes_other_browsers && pool.wsl_windows,
        hint: "set `{engine}` to `playwright`: on Windows only that engine can be started",
    },
    KeyRule {
        keys: ["slots", "isolated"],
        broken: |pool| pool.slots > 1 && !pool.isolated,
        hint: "set `{slots}` to 1, or `{isolated}` to `true`: several sessions in one profile would share their cookies",
    },
    KeyRule {
        keys: ["slots", "user_data_dir"],
        broken: |pool| pool.slots > 1 && pool.user_data_dir.is_some(),
        hint: "set `{slots}` to 1, or leave `{user_data_dir}` out: a profile serves one session",
    },
    KeyRule {
        keys: ["slots", "extension"],
        broken: |pool| pool.slots > 1 && pool.extension,
        hint: "set `{slots}` to 1: an open browser serves one session",
    },
    KeyRule {
        keys: ["slots", "browser"],
        broken: |pool| pool.slots > 1 && is_engines_own(pool.browser),
        hint: "set `{slots}` to 1, and use more instances: the engine starts this browser for one session only",
    },
    KeyRule {
        keys: ["slots", "wsl_windows"],
        broken: |pool| pool.slots > 1 && pool.wsl_windows,
        hint: "set `{slots}` to 1, and use more instances: the engine starts this browser for one session only",
    },
    KeyRule {
        keys: ["storage_state", "isolated"],
        broken: |pool| pool.storage_state.is_some() && !pool.isolated,
        hint: "set `{isolated}` to `true`: a profile that stays has a state of its own",
    },
    KeyRule {
        keys: ["user_data_dir", "isolated"],
        broken: |pool| pool.user_data_dir.is_some() && pool.isolated,
        hint: "set `{isolated}` to `false`, or leave `{user_data_dir}` out: isolated sessions have no profile that stays",
    },
    KeyRule {
        // A browser that the engine starts is made as the device from the beginning.
        keys: ["device", "isolated"],
        broken: |pool| {
            let engines_own = is_engines_own(pool.browser) || pool.wsl_windows;
            pool.device.is_some() && !pool.isolated && (!engines_own || pool.extension)
        },
        hint: "set `{isolated}` to `true`: the browser's own context cannot emulate a device",
    },
    KeyRule {
        keys: ["locale", "isolated"],
        broken: |pool| pool.locale.is_some() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["timezone", "isolated"],
        broken: |pool| pool.timezone.is_some() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["geolocation", "isolated"],
        broken: |pool| pool.geolocation.is_some() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["color_scheme", "isolated"],
        broken: |pool| pool.color_scheme.is_some() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["device_scale_factor", "isolated"],
        broken: |pool| pool.device_scale_factor.is_some() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["permissions", "isolated"],
        broken: |pool| !pool.permissions.is_empty() && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["bypass_csp", "isolated"],
        broken: |pool| pool.bypass_csp && is_default_context(pool),
        hint: DEFAULT_CONTEXT,
    },
    KeyRule {
        keys: ["device_scale_factor", "device"],
        broken: |pool| pool.device_scale_factor.is_some() && pool.device.is_some(),
        hint: "leave one of them out: a device has a scale of its own",
    },
    KeyRule {
        keys: ["viewport_size", "device_scale_factor"],
        broken: |pool| {
            let size = pool.viewport_size;
            let scale = pool.device_scale_factor.map_or(1.0, Scale::factor);
            page_size::check(size.width.into(), size.height.into(), scale).is_err()
        },
        hint: "make one of them smaller: pictures of such a page would take gigabytes",
    },
    KeyRule {
        keys: ["browser_args", "browser"],
        broken: |pool| !pool.browser_args.is_empty() && is_engines_own(pool.browser),
        hint: "leave `{browser_args}` out: they are for a Chromium that greenroom starts",
    },
    KeyRule {
        keys: ["browser_args", "extension"],
        broken: |pool| !pool.browser_args.is_empty() && pool.extension,
        hint: "leave `{browser_args}` out: they are for a Chromium that greenroom starts",
    },
    KeyRule {
        keys: ["browser_args", "wsl_windows"],
        broken: |pool| !pool.browser_args.is_empty() && pool.wsl_windows,
        hint: "leave `{browser_args}` out: they are for a Chromium that greenroom starts",
    },
    KeyRule {
        keys: ["secrets_file", "wsl_windows"],
        broken: |pool| pool.secrets_file.is_some() && pool.wsl_windows,
        hint: "leave `{secrets_file}` out: it names a Linux file, and the engine runs on Windows",
    },
    KeyRule {
        keys: ["executable_path", "wsl_windows"],
        broken: |pool| pool.executable_path.is_some() && pool.wsl_windows,
        hint: "leave `{executable_path}` out: it names a Linux file, and the browser runs on Windows",
    },
    KeyRule {
        keys: ["extension", "browser"],
        broken: |pool| pool.extension && is_engines_own(pool.browser),
        hint: "set `{browser}` to `chrome` or `msedge`: the extension is for those",
    },
];

/// For attached browsers.
pub(super) const ATTACHED: &[KeyRule] = &[
    KeyRule {
        keys: ["engine", "isolated"],
        broken: |pool| pool.engine.facts().attaching == Attaching::OwnContextOnly && pool.isolated,
        hint: "leave `{isolated}` out, or set `{engine}` to `playwright`: the engine makes no contexts of its own in an attached browser",
    },
    KeyRule {
        keys: ["caps", "isolated"],
        broken: |pool| {
            // Other engines have no `caps`, which another check reports.
            let is_playwright = pool.engine == EngineKind::Playwright;
            is_playwright && !pool.isolated && pool.caps.iter().any(|cap| cap.reaches_all_tabs())
        },
        hint: "set `{isolated}` to `true`, or take `network` and `devtools` out of `{caps}`: in the browser's own context \
               their tools would reach the tabs of the browser's user",
    },
];

/// Settings that are set but that the pool's engine does not have, each with the only engine that has it. None for the
/// custom engine: greenroom does not know which settings that engine uses.
pub(in crate::settings) fn of_other_engines(pool: &Pool) -> Vec<(&'static str, EngineKind)> {
    if pool.engine.facts().is_user_supplied {
        return Vec::new();
    }
    let others = SETTINGS.iter().filter_map(|setting| Some((setting, setting.only?)));
    let others = others.filter(|(setting, engine)| *engine != pool.engine && is_changed(setting, pool));
    others.map(|(setting, engine)| (setting.name(), engine)).collect()
}

/// Settings that are set, that no rule above covers, and that in a browser's own context would reach its user's tabs.
pub(super) fn of_contexts(pool: &Pool) -> Vec<&'static str> {
    let told = |key: &&str| RULES.iter().any(|rule| rule.keys == [*key, "isolated"] && (rule.broken)(pool));
    let told = |key: &&str| told(key) || of_other_engines(pool).iter().any(|(other, _)| other == key);
    let of_contexts = SETTINGS.iter().filter(|setting| setting.applies_to == Some(AppliesTo::Isolated));
    let made = of_contexts.filter(|setting| !pool.isolated && is_changed(setting, pool));
    made.map(Setting::name).filter(|key| !told(key)).collect()
}

fn is_changed(setting: &Setting, pool: &Pool) -> bool {
    !setting.is_same_in(pool, &Pool::declared_defaults())
}

/// Whether sessions use a context that the engine cannot configure: an existing one, or one of a browser on Windows,
/// where this side's files do not exist.
fn is_default_context(pool: &Pool) -> bool {
    pool.extension || pool.wsl_windows || (!pool.isolated && !is_engines_own(pool.browser))
}

fn is_engines_own(browser: Browser) -> bool {
    matches!(browser, Browser::Firefox | Browser::Webkit)
}
