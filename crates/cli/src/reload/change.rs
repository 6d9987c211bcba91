//! The effect of a changed configuration: what differs, when each difference takes effect, and which settings then hold.

use greenroom_core::{
    plural,
    settings::{DeclaredInstance, DeclaredPool, Pool, SETTINGS, Settings},
};

use super::browser_changes::BrowserChanges;

/// Keys of a pool that take effect at once.
const IMMEDIATE: [&str; 8] = [
    "lease_timeout",
    "lease_strategy",
    "share",
    "warm",
    "timeout",
    "health_interval",
    "health_timeout",
    "restarts",
];

/// Keys of a pool that are fixed when greenroom starts: it makes what they configure only then.
const ON_RESTART: [&str; 10] = [
    "instances_max",
    "instance_idle",
    "proxy_server",
    "network_preset",
    "network_allow",
    "network_deny",
    "wsl_windows",
    "engine",
    "command",
    "url",
];

/// When a change takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Immediate,
    /// With the instances that start from now on.
    NewInstances,
    /// Not before greenroom is restarted.
    OnRestart,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SettingChange {
    pub what: String,
    pub effect: Effect,
}

/// The settings in force after a change. Existing pools and browsers get the values that can change while greenroom
/// runs; everything else stays as it was.
pub fn effective_settings(before: &Settings, after: &Settings) -> Settings {
    let mut settings = before.clone();
    BrowserChanges::between(before, after).apply_to(&mut settings.browsers);
    let keeps_slots = before.tools.r#unsafe;
    if before.pools.is_empty() {
        // Newly declared pools and browsers wait for a restart, and the built-in pool stays as it was.
        if after.built_in().is_some() && before.built_in().is_some() {
            settings.pool = effective_pool(&before.pool, &after.pool, keeps_slots);
        }
        return settings;
    }
    for pool in &mut settings.pools {
        let Some(now) = after.pools.iter().find(|now| now.name == pool.name) else { continue };
        let common = pool.common.clone();
        let is_default = pool.is_default;
        let instances = now.instances.iter().enumerate().map(|(id, instance)| {
            let previous = pool.instances.get(id).map_or(&common, |instance| &instance.pool);
            DeclaredInstance {
                pool: effective_pool(previous, &instance.pool, keeps_slots),
                ..instance.clone()
            }
        });
        let instances = instances.collect();
        *pool = DeclaredPool {
            is_default,
            instances,
            common: effective_pool(&common, &now.common, keeps_slots),
            ..now.clone()
        };
    }
    settings
}

/// A pool's new values, except those that cannot change. With `keeps_slots` (`tools.unsafe`), calls may run code in the
/// engine's process, so an instance keeps its single slot.
fn effective_pool(before: &Pool, after: &Pool, keeps_slots: bool) -> Pool {
    Pool {
        instances_max: before.instances_max,
        instance_idle: before.instance_idle,
        proxy_server: before.proxy_server.clone(),
        // The egress proxies are made at the start, one for each policy.
        network_preset: before.network_preset,
        network_allow: before.network_allow.clone(),
        network_deny: before.network_deny.clone(),
        wsl_windows: before.wsl_windows,
        engine: before.engine,
        command: before.command.clone(),
        url: before.url.clone(),
        slots: if keeps_slots { before.slots } else { after.slots },
        ..after.clone()
    }
}

pub fn changes(before: &Settings, after: &Settings) -> Vec<SettingChange> {
    let mut changes = Vec::new();
    for setting in SETTINGS.iter().filter(|setting| !setting.is_of_pools()) {
        if !setting.is_same(before, after) {
            let what = format!("`{}` is `{}`", setting.key, setting.show(after));
            changes.push(SettingChange { what, effect: Effect::OnRestart });
        }
    }
    if let (Some(before), Some(after)) = (before.built_in(), after.built_in()) {
        changes.extend(pool_setting_changes("pool", before, after));
        return changes;
    }
    changes.extend(BrowserChanges::between(before, after).changes());
    let find = |pools: &[DeclaredPool], name: &str| pools.iter().find(|pool| pool.name == name).cloned();
    for pool in &before.pools {
        match find(&after.pools, &pool.name) {
            Some(now) => changes.extend(declared_pool_changes(pool, &now)),
            None => {
                changes.push(SettingChange {
                    what: format!("pool {} is gone", pool.name),
                    effect: Effect::OnRestart,
                });
            }
        }
    }
    for pool in after.pools.iter().filter(|pool| find(&before.pools, &pool.name).is_none()) {
        changes.push(SettingChange { what: format!("pool {} is new", pool.name), effect: Effect::OnRestart });
    }
    changes
}

fn declared_pool_changes(before: &DeclaredPool, after: &DeclaredPool) -> Vec<SettingChange> {
    let name = &after.name;
    let mut changes = Vec::new();
    let mut immediate = |differs: bool, what: String| {
        if differs {
            changes.push(SettingChange { what, effect: Effect::Immediate });
        }
    };
    let count = after.instances.len();
    immediate(
        before.instances.len() != count,
        format!("pool {name} has {}", plural::count(count, "instance")),
    );
    immediate(before.description != after.description, format!("pool {name} has another description"));
    let aliases =
        |pool: &DeclaredPool| pool.instances.iter().map(|one| one.alias.clone()).collect::<Vec<_>>();
    let both = before.instances.len().min(count);
    immediate(aliases(before)[..both] != aliases(after)[..both], format!("pool {name} has other aliases"));
    if before.is_default != after.is_default {
        changes.push(SettingChange {
            what: format!("pool {name} is the default: {}", after.is_default),
            effect: Effect::OnRestart,
        });
    }
    changes.extend(pool_setting_changes(name, &before.common, &after.common));
    for (id, (old, new)) in before.instances.iter().zip(&after.instances).enumerate() {
        let pool_wide = pool_setting_changes(name, &before.common, &after.common);
        // List a change of all instances of a pool once.
        let of_instance = pool_setting_changes(&format!("{name}.{id}"), &old.pool, &new.pool);
        let is_pool_wide = |change: &SettingChange| {
            pool_wide.iter().any(|other| without_subject(&other.what) == without_subject(&change.what))
        };
        changes.extend(of_instance.into_iter().filter(|change| !is_pool_wide(change)));
    }
    changes
}

/// A change's text without the name of the pool or instance.
fn without_subject(what: &str) -> &str {
    what.split_once(": ").map_or(what, |(_, tail)| tail)
}

fn pool_setting_changes(subject: &str, before: &Pool, after: &Pool) -> Vec<SettingChange> {
    let of_pools = SETTINGS.iter().filter(|setting| setting.is_of_pools());
    let changed = of_pools.filter(|setting| !setting.is_same_in(before, after));
    changed
        .map(|setting| {
            let effect = match setting.name() {
                key if IMMEDIATE.contains(&key) => Effect::Immediate,
                key if ON_RESTART.contains(&key) => Effect::OnRestart,
                _ => Effect::NewInstances,
            };
            SettingChange {
                what: format!("{subject}: `{}` is `{}`", setting.name(), setting.show_in(after)),
                effect,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom_core::settings::{ConfigFile, Sources, resolve};

    fn settings(toml: &str) -> Settings {
        let file = ConfigFile { path: "/c/greenroom.toml".into(), text: toml.to_owned(), trusted: true };
        let sources = Sources { data_dir: Some("/d".into()), files: vec![file], ..Sources::default() };
        resolve(&sources).unwrap().settings
    }

    #[track_caller]
    fn check(before: &str, after: &str, expected: &[(&str, Effect)]) {
        let changes = changes(&settings(before), &settings(after));
        let changes: Vec<_> = changes.iter().map(|change| (change.what.as_str(), change.effect)).collect();
        assert_eq!(changes, expected);
    }

    const TWO: &str = "[pools.A]\ninstances = 2\nis_default = true\n[pools.B]\ninstances = 1\n";

    /// A change that needs a restart is reported at each reload; a pool that was never made is not reported as gone.
    #[test]
    fn unapplied_changes_are_reported_again() {
        let with_c = format!("{TWO}[pools.C]\ninstances = 1\n");
        let now =
            effective_settings(&settings(TWO), &settings(&with_c.replace("instances = 2", "instances = 5")));
        assert_eq!(
            now.pools.iter().map(|pool| (&*pool.name, pool.instances.len())).collect::<Vec<_>>(),
            [("A", 5), ("B", 1)]
        );
        assert_eq!(changes(&now, &settings(&TWO.replace("instances = 2", "instances = 5"))), []);
        assert_eq!(effective_settings(&settings(""), &settings(TWO)), settings(""));
        assert_eq!(effective_settings(&settings(""), &settings("[pool]\nslots = 3")).pool.slots, 3);
    }

    /// What is fixed at the start stays, whatever the files say: the isolation that `tools.unsafe` needs, programs, proxies,
    /// folders and the default pool.
    #[test]
    fn settings_fixed_at_start_stay() {
        let before = settings("data_dir = \"/a\"\n[tools]\nunsafe = true\n[pool]\nslots = 1\n");
        let after = settings(
            "data_dir = \"/b\"\n[pool]\nslots = 16\nproxy_server = \"http://p:1\"\nnetwork_deny = [\"a\"]\nheadless = false\n",
        );
        let now = effective_settings(&before, &after);
        assert_eq!((now.tools.r#unsafe, now.pool.slots, &now.data_dir), (true, 1, &before.data_dir));
        assert_eq!((now.pool.proxy_server.clone(), now.pool.headless), (None, false));
        assert_eq!(now.pool.network_deny, None);
        for fixed in ["proxy_server", "network_deny"] {
            let changes = changes(&now, &after);
            let change = changes.iter().find(|change| change.what.contains(fixed));
            assert_eq!(
                change.map(|change| change.effect),
                Some(Effect::OnRestart),
                "{fixed} is reported again"
            );
        }
        let other =
            TWO.replace("is_default = true\n", "").replace("[pools.B]\n", "[pools.B]\nis_default = true\n");
        assert!(effective_settings(&settings(TWO), &settings(&other)).pools[0].is_default);
    }

    /// Browsers come and go by their addresses; the first, the last and new values wait for the next start. Changes are
    /// reported without secrets.
    #[test]
    fn browsers_are_matched_by_address() {
        let one = "[[browsers]]\nurl = 'http://a:1'\nheaders = { A = 'x' }\n";
        let two = format!("[[browsers]]\nurl = 'ws://b:1/?key=secret'\n{one}");
        let other = "[[browsers]]\nurl = 'http://c:1'\n";
        let a = "browser `http://a:1`";
        let b = "browser `ws://b:1/?***`";
        let c = "browser `http://c:1`";
        let urls = |before: &str, after: &str| {
            let now = effective_settings(&settings(before), &settings(after)).browsers;
            now.into_iter().map(|browser| browser.url).collect::<Vec<_>>()
        };
        check(one, one, &[]);
        check(one, &two, &[(&format!("{b} is new"), Effect::Immediate)]);
        assert_eq!(urls(one, &two), ["http://a:1", "ws://b:1/?key=secret"]);
        check(&two, one, &[(&format!("{b} is gone"), Effect::Immediate)]);
        assert_eq!(urls(&two, one), ["http://a:1"]);
        check(
            one,
            other,
            &[(&format!("{a} is gone"), Effect::Immediate), (&format!("{c} is new"), Effect::Immediate)],
        );
        for changed in [one.replace("'x'", "'y'"), format!("pool.timeout = 5\n{one}")] {
            check(one, &changed, &[(&format!("{a} has other values"), Effect::OnRestart)]);
            assert_eq!(effective_settings(&settings(one), &settings(&changed)), settings(one));
        }
        let here = "[[browsers]]\nurl = 'http://localhost:1'\n";
        let spelled = here.replace("localhost", "127.0.0.1");
        check(here, &spelled, &[("browser `http://127.0.0.1:1` has other values", Effect::OnRestart)]);
        let scope = ("`sessions.scope` is `call`", Effect::OnRestart);
        check("", one, &[scope, (&format!("{a} is new"), Effect::OnRestart)]);
        assert_eq!(effective_settings(&settings(""), &settings(one)), settings(""));
        check(
            &format!("sessions.scope = 'call'\n{one}"),
            "sessions.scope = 'call'\n",
            &[(&format!("{a} is gone"), Effect::OnRestart)],
        );
        let pools = format!("{one}{TWO}");
        let now =
            effective_settings(&settings(&pools), &settings(&format!("{two}{}", TWO.replace("= 2", "= 3"))));
        assert_eq!((now.browsers.len(), now.pools[0].instances.len()), (2, 3));
    }

    /// Every change is found, reported once, and classified by when it takes effect.
    #[test]
    fn every_change_has_one_effect() {
        check(TWO, TWO, &[]);
        check("", "log = \"info\"", &[("`log` is `info`", Effect::OnRestart)]);
        check(
            "pool.proxy_server = \"http://ann:old@proxy:1\"",
            "pool.proxy_server = \"http://ann:new@proxy:1\"",
            &[("pool: `proxy_server` is `http://ann:***@proxy:1`", Effect::OnRestart)],
        );
        check(
            "",
            "[pool]\nlease_timeout = 5000\nheadless = false\ninstances_max = 2",
            &[
                ("pool: `instances_max` is `2`", Effect::OnRestart),
                ("pool: `lease_timeout` is `5s`", Effect::Immediate),
                ("pool: `headless` is `false`", Effect::NewInstances),
            ],
        );
        check(
            TWO,
            "[pools.A]\ninstances.count = 3\nis_default = true\ndescription = \"x\"\nuser_agent = \"u\"\n[pools.A.instances.1]\nalias = \"one\"\nheadless = false\n[pools.C]\ninstances = 1",
            &[
                ("pool A has 3 instances", Effect::Immediate),
                ("pool A has another description", Effect::Immediate),
                ("pool A has other aliases", Effect::Immediate),
                ("A: `user_agent` is `u`", Effect::NewInstances),
                ("A.1: `headless` is `false`", Effect::NewInstances),
                ("pool B is gone", Effect::OnRestart),
                ("pool C is new", Effect::OnRestart),
            ],
        );
    }
}
