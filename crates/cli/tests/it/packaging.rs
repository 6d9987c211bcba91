//! The container's and systemd's files, checked as far as possible without either: they build from this repository, run as
//! an ordinary user, and agree with each other and with the program. `make check` runs hadolint and systemd-analyze too,
//! where they are installed.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::Value;

/// The repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An instruction of the Dockerfile, with its lines joined.
struct Instruction {
    name: String,
    rest: String,
}

impl Instruction {
    /// Its words, without options such as `--from=build`.
    fn words(&self) -> Vec<&str> {
        self.rest.split_whitespace().filter(|word| !word.starts_with("--")).collect()
    }

    fn has(&self, text: &str) -> bool {
        self.rest.contains(text)
    }
}

/// Every instruction of the Dockerfile, by stage. What comes before the first stage is a stage of its own.
fn stages() -> Vec<Vec<Instruction>> {
    let text = read("Dockerfile");
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let mut stages = vec![Vec::new()];
    for line in joined.lines().filter(|line| !line.trim().is_empty()) {
        let (name, rest) = line.split_once(' ').unwrap_or_else(|| panic!("not an instruction: {line}"));
        if name == "FROM" {
            stages.push(Vec::new());
        }
        stages.last_mut().unwrap().push(Instruction { name: name.to_owned(), rest: rest.trim().to_owned() });
    }
    stages
}

fn all() -> Vec<Instruction> {
    stages().into_iter().flatten().collect()
}

/// Everything that the image is built from is in the repository and not excluded by `.dockerignore`; and everything that
/// the program is compiled from is copied.
#[test]
fn image_inputs_are_in_the_repository() {
    let ignore = read(".dockerignore");
    assert!(ignore.lines().any(|line| line == "*"), "only the named files are sent");
    let mut copied = BTreeSet::new();
    for copy in all().iter().filter(|one| one.name == "COPY" && !one.has("--from=")) {
        let words = copy.words();
        for source in &words[..words.len() - 1] {
            assert!(root().join(source).exists(), "no such file: `{source}`");
            assert!(ignore.lines().any(|line| line == format!("!{source}")), "`{source}` is not sent");
            copied.insert((*source).to_owned());
        }
    }
    for needed in ["Cargo.toml", "Cargo.lock", "crates"].into_iter().map(str::to_owned).chain(compiled_in()) {
        assert!(copied.contains(&needed), "`{needed}` is part of the program, and is not copied");
    }
}

/// The top folders that the sources take files from at build time.
fn compiled_in() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                for part in text.split("include_").skip(1) {
                    // `../../../../engines/…`, from the file or through the manifest's folder.
                    let name = part.split('"').nth(1).unwrap_or_default();
                    let top = name.trim_start_matches('/').split('/').find(|part| *part != "..");
                    if name.contains("../../..") || name.starts_with("/../..") {
                        found.extend(top.map(str::to_owned));
                    }
                }
            }
        }
    }
    assert!(found.contains("engines"), "{found:?}");
    found
}

/// Base images have a version, stages that are copied from exist, and the toolchain is as new as the workspace requires.
#[test]
fn versions_are_pinned() {
    let mut known = BTreeSet::new();
    for from in all().iter().filter(|one| one.name == "FROM") {
        let words = from.words();
        let image = words[0];
        if !known.contains(image) {
            let tag = image.split_once(':').unwrap_or_else(|| panic!("no version: `{image}`")).1;
            assert_ne!(tag, "latest");
            if let Some(version) = image.strip_prefix("rust:") {
                let minor = |text: &str| text.split(['.', '-']).nth(1).unwrap().parse::<u32>().unwrap();
                let manifest = read("Cargo.toml");
                let manifest =
                    manifest.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap();
                assert!(
                    minor(version) >= minor(manifest.trim_matches('"')),
                    "{version} is older than {manifest}"
                );
            }
        }
        if words.len() == 3 {
            known.insert(words[2].to_owned());
        }
    }
    for copy in all().iter().filter(|one| one.name == "COPY") {
        if let Some(stage) = copy.rest.split_whitespace().find_map(|word| word.strip_prefix("--from=")) {
            assert!(known.contains(stage), "no stage `{stage}`");
        }
    }
    assert!(!read("Dockerfile").contains("latest") && !read("compose.yaml").contains("latest"));
    // Debian 12 has Node 18, which the engine does not run on.
    assert!(read("Dockerfile").contains("ARG DEBIAN=trixie"));
}

/// The browser's package is the one that developers get, and build-only packages are not in the image.
#[test]
fn image_has_the_runtime_packages_only() {
    let stages = stages();
    let names = |stage: &[Instruction]| -> Vec<String> {
        let installs = stage.iter().filter(|one| one.name == "RUN" && one.has("apt-get install"));
        let words = installs.flat_map(|one| one.rest.split("&&").map(str::to_owned).collect::<Vec<_>>());
        words
            .filter(|part| part.contains("apt-get install"))
            .flat_map(|part| part.split_whitespace().skip(2).map(str::to_owned).collect::<Vec<_>>())
            .filter(|word| !word.starts_with('-'))
            .collect()
    };
    let base =
        stages.iter().find(|stage| stage.first().is_some_and(|one| one.rest.ends_with("AS base"))).unwrap();
    let base = names(base);
    for needed in ["ca-certificates", "chromium-headless-shell", "nodejs", "tini"] {
        assert!(base.iter().any(|name| name == needed), "`{needed}` is missing: {base:?}");
    }
    assert!(!base.iter().any(|name| name == "npm" || name == "curl"), "{base:?}");
    assert!(read("scripts/deps").contains("chromium-headless-shell"));
    let last = stages.last().unwrap();
    assert_eq!(last[0].rest, "base");
    assert!(names(last).is_empty());
    for run in all().iter().filter(|one| one.has("apt-get install")) {
        assert!(run.has("--no-install-recommends") && run.has("rm -rf /var/lib/apt/lists/*"), "{}", run.rest);
    }
}

/// The program runs as a user that is not root, under an init that reaps orphans, and with a health check.
#[test]
fn image_runs_as_a_non_root_user_under_init() {
    let last = stages().pop().unwrap();
    let position =
        |name: &str| last.iter().position(|one| one.name == name).unwrap_or_else(|| panic!("no {name}"));
    let user = &last[position("USER")].rest;
    assert!(user.parse::<u32>().unwrap_or_else(|_| panic!("`{user}` is no number, as clusters want it")) > 0);
    assert!(position("USER") < position("ENTRYPOINT"));
    assert!(read("Dockerfile").contains(&format!("useradd --uid {user} ")));
    assert!(last[position("ENTRYPOINT")].has("/usr/bin/tini"));
    assert!(last[position("HEALTHCHECK")].has("/health"));
    for list in ["ENTRYPOINT", "CMD"] {
        let words: Vec<String> = serde_json::from_str(&last[position(list)].rest).unwrap();
        assert!(!words.is_empty(), "{list} is a list, so that signals reach the program and no shell");
    }
    let compose = read("compose.yaml");
    assert!(compose.contains("cap_drop: [ALL]") && compose.contains("no-new-privileges:true"));
}

/// All files have the same address, and it is loopback's.
#[test]
fn packaging_files_use_the_loopback_address() {
    for (file, at_least) in [
        ("Dockerfile", 2),
        ("compose.yaml", 1),
        ("packaging/systemd/greenroom.service", 1),
        ("docs/INSTALL.md", 1),
    ] {
        let text = read(file);
        assert!(text.matches("127.0.0.1:34501").count() >= at_least, "{file}");
        assert_eq!(text.matches("127.0.0.1:").count(), text.matches("127.0.0.1:34501").count(), "{file}");
        assert!(!text.contains("0.0.0.0"), "{file}");
    }
    assert!(all().iter().any(|one| one.name == "EXPOSE" && one.rest == "34501"));
}

/// The stop timeout is longer than greenroom takes at most, and the image has the program's version.
#[test]
fn compose_stop_timeout_and_version_match() {
    let compose = read("compose.yaml");
    let unit = read("packaging/systemd/greenroom.service");
    let app_source = read("crates/cli/src/app/mod.rs");
    let seconds = |text: &str, before: &str, after: &str| -> u64 {
        let rest = text.split_once(before).unwrap_or_else(|| panic!("no `{before}`")).1;
        rest.split_once(after).unwrap().0.parse().unwrap()
    };
    let shutdown = seconds(&app_source, "SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(", ")");
    assert!(seconds(&compose, "stop_grace_period: ", "s\n") > shutdown + 1);
    assert!(seconds(&unit, "TimeoutStopSec=", "\n") > shutdown + 1);
    assert!(compose.contains(&format!("image: greenroom:{}\n", env!("CARGO_PKG_VERSION"))));
    assert!(!compose.contains('\t'));
}

/// The seccomp profile leaves Chromium's sandbox its namespaces and forbids what would reach the kernel's
/// insides.
#[test]
fn seccomp_profile_allows_the_chromium_sandbox() {
    let compose = read("compose.yaml");
    let path = compose.split_once("seccomp=").unwrap().1.lines().next().unwrap();
    let profile: Value = serde_json::from_str(&read(path)).unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    let forbidden: Vec<_> = profile["syscalls"]
        .as_array()
        .unwrap()
        .iter()
        .inspect(|rule| assert_eq!(rule["action"], "SCMP_ACT_ERRNO"))
        .flat_map(|rule| rule["names"].as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    for needed in ["clone", "clone3", "unshare", "setns", "chroot", "seccomp", "prctl"] {
        assert!(!forbidden.contains(&needed), "{needed}");
    }
    for dangerous in
        ["mount", "bpf", "kexec_load", "init_module", "ptrace", "perf_event_open", "keyctl", "io_uring_setup"]
    {
        assert!(forbidden.contains(&dangerous), "{dangerous}");
    }
}

/// Every line of the unit is a section, an assignment or a comment; none would keep Chromium from its sandbox
/// or JavaScript from its compiler; and it starts the verb that serves.
#[test]
fn systemd_unit_is_valid() {
    let unit = read("packaging/systemd/greenroom.service");
    let mut values = std::collections::BTreeMap::new();
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if !(line.starts_with('[') && line.ends_with(']')) {
            let (key, value) = line.split_once('=').unwrap_or_else(|| panic!("not an assignment: {line}"));
            assert!(values.insert(key, value).is_none(), "twice: {key}");
        }
    }
    assert!(values["ExecStart"].ends_with("/greenroom serve --listen 127.0.0.1:34501"));
    assert_eq!(values["NoNewPrivileges"], "yes");
    // greenroom makes cgroups only with all of these.
    assert_eq!(values["Delegate"], "memory cpu pids");
    for never in ["RestrictNamespaces", "MemoryDenyWriteExecute", "PrivateUsers", "User"] {
        assert!(!values.contains_key(never), "{never}");
    }
    let filter = values["SystemCallFilter"];
    assert!(filter.starts_with('~'));
    for needed in ["@mount", "@privileged", "@process", "@sandbox"] {
        assert!(!filter.split(['~', ' ']).any(|set| set == needed), "{needed}");
    }
}
