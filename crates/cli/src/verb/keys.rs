//! `greenroom keys`: makes, lists, revokes and replaces API keys. It changes a file in the data folder, and needs no running
//! greenroom; servers notice the change within a second.

use std::{
    io::{self, Read, Write},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context;
use greenroom_core::{
    ApiKey, ApiKeyName, ApiKeySecret, ApiScope, ApiScopes,
    excerpt::echoed,
    settings::{Resolved, parse_duration},
    time::{parse, timestamp},
};
use greenroom_store::{
    KeyFile, KeyFileError,
    key_file::{KEYS_MAX, kept_precision},
};
use serde_json::json;

use crate::{
    config::ProcessEnv,
    progress,
    report::CliError,
    view::{self, terminal::Terminal},
};

/// The longest time after which a key may expire. A key for longer is one without expiry.
const EXPIRY_DAYS_MAX: u64 = 3650;

/// The most sessions that a key may allow: more than any machine has browsers.
const SESSIONS_MAX: u64 = 100_000;

#[derive(Debug, clap::Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    pub verb: KeysVerb,
}

#[derive(Debug, clap::Subcommand)]
pub enum KeysVerb {
    /// Make a key and print it, once: greenroom keeps only its hash
    Create(CreateArgs),
    /// List the keys, without their secrets
    List(ListArgs),
    /// Make a key invalid: its open streams end within a second, and its owner's sessions are closed
    Revoke(RevokeArgs),
    /// Give a key a new secret and print it, once; the old secret is invalid at once unless --grace is given
    Rotate(RotateArgs),
}

#[derive(Debug, clap::Args)]
pub struct CreateArgs {
    /// The key's name, which owns everything that its holder makes
    pub name: String,

    /// What the key may be used for: browse, watch, control or admin; may be repeated [default: browse, watch, control]
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', value_parser = scope)]
    pub scope: Vec<ApiScope>,

    /// When the key becomes invalid: a time from now such as `12h` or `90d`, a date, a time in RFC 3339, or `never`
    #[arg(long, value_name = "WHEN", default_value = "never", value_parser = expiry)]
    pub expires: Expiry,

    /// How many sessions its owner may have at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=SESSIONS_MAX))]
    pub sessions: Option<u64>,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct RevokeArgs {
    /// The key's name
    pub name: String,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct RotateArgs {
    /// The key's name
    pub name: String,

    /// Keep the old secret valid for this time, such as `10m` or `24h`
    #[arg(long, value_name = "DURATION", value_parser = grace)]
    pub grace: Option<Duration>,

    /// Also change when the key becomes invalid; see `greenroom keys create --help`
    #[arg(long, value_name = "WHEN", value_parser = expiry)]
    pub expires: Option<Expiry>,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// When a key becomes invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    Never,
    At(SystemTime),
}

impl Expiry {
    fn time(self) -> Option<SystemTime> {
        match self {
            Self::Never => None,
            Self::At(time) => Some(kept_precision(time)),
        }
    }
}

fn scope(text: &str) -> Result<ApiScope, String> {
    text.trim().parse().map_err(|error: greenroom_core::api_key::UnknownScope| error.to_string())
}

fn grace(text: &str) -> Result<Duration, &'static str> {
    let duration = days(text).or_else(|| parse_duration(text)).filter(|duration| !duration.is_zero());
    duration.ok_or("give a duration such as `10m`, `24h` or `7d`")
}

fn days(text: &str) -> Option<Duration> {
    let days: u64 = text.strip_suffix('d')?.parse().ok()?;
    (days <= EXPIRY_DAYS_MAX).then(|| Duration::from_secs(days * 24 * 3600))
}

fn expiry(text: &str) -> Result<Expiry, String> {
    if text == "never" {
        return Ok(Expiry::Never);
    }
    let now = SystemTime::now();
    let after =
        days(text).or_else(|| parse_duration(text).filter(|_| !text.is_empty())).map(|after| now + after);
    let time = after.or_else(|| parse(text)).or_else(|| parse(&format!("{text}T00:00:00Z"))).ok_or_else(|| {
        format!(
            "give a time from now such as `12h` or `90d` (at most {EXPIRY_DAYS_MAX} days), a date such as `2027-01-31`, a time in RFC 3339, or `never`"
        )
    })?;
    if time <= now {
        return Err("that time has passed".to_owned());
    }
    Ok(Expiry::At(time))
}

pub fn run(resolved: &Resolved, env: &ProcessEnv, args: &KeysArgs) -> anyhow::Result<ExitCode> {
    let file = KeyFile::of(&resolved.settings.data_dir);
    let text = match &args.verb {
        KeysVerb::Create(args) => create(resolved, &file, args)?,
        KeysVerb::List(args) => list(resolved, &file, args, env)?,
        KeysVerb::Revoke(args) => revoke(&file, args)?,
        KeysVerb::Rotate(args) => rotate(&file, args)?,
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn create(resolved: &Resolved, file: &KeyFile, args: &CreateArgs) -> anyhow::Result<String> {
    let name = ApiKeyName::new(&args.name).map_err(|error| CliError::usage(error.to_string()))?;
    let scopes = match &args.scope[..] {
        [] => ApiScopes::default(),
        given => given.iter().copied().collect(),
    };
    let secret = new_secret()?;
    let now = kept_precision(SystemTime::now());
    let key = ApiKey {
        expires: args.expires.time(),
        sessions_max: args.sessions.and_then(|sessions| usize::try_from(sessions).ok()),
        ..ApiKey::new(name, secret.hash(), scopes, now)
    };
    let is_first = file.change(|keys| {
        if let Some(existing) = keys.iter().find(|existing| existing.name == key.name) {
            let state = existing.state(now).as_str();
            return Err(anyhow::Error::from(
                CliError::failure(format!("there is a key with this name: `{}` ({state})", key.name)).hint(
                    format!(
                        "`greenroom keys rotate {}` gives it a new secret; or choose another name",
                        key.name
                    ),
                ),
            ));
        }
        if keys.len() >= KEYS_MAX {
            return Err(CliError::failure(format!("there are {KEYS_MAX} keys already")).into());
        }
        keys.push(key.clone());
        Ok(keys.len() == 1)
    })?;
    if is_first && resolved.settings.server.api_keys.is_empty() {
        progress::note(
            "this is the first API key: from now on every request to a server over the network needs one; the control socket, which `greenroom mcp` and commands on this machine use, needs none",
        );
    }
    Ok(shown_once(&key, &secret, args.json)?)
}

fn list(resolved: &Resolved, file: &KeyFile, args: &ListArgs, env: &ProcessEnv) -> anyhow::Result<String> {
    let keys = file.read()?;
    let configured = &resolved.settings.server.api_keys;
    let now = SystemTime::now();
    if !args.json {
        if keys.is_empty() && configured.is_empty() {
            progress::note("there are no API keys; `greenroom keys create NAME` makes one");
        }
        return Ok(view::keys::table(&keys, configured, now, Terminal::stdout(env)));
    }
    let stored = keys.iter().map(|key| described(key, now, "data folder"));
    let configured = configured.iter().map(|key| described(&key.entry(), now, "configuration"));
    let all: Vec<_> = stored.chain(configured).collect();
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn revoke(file: &KeyFile, args: &RevokeArgs) -> anyhow::Result<String> {
    let now = kept_precision(SystemTime::now());
    let key = file.change(|keys| {
        let key = find(keys, &args.name)?;
        key.revoked.get_or_insert(now);
        key.previous = None;
        Ok::<_, anyhow::Error>(key.clone())
    })?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&described(&key, now, "data folder"))? + "\n");
    }
    Ok(format!("revoked: {}\n", key.name))
}

fn rotate(file: &KeyFile, args: &RotateArgs) -> anyhow::Result<String> {
    let secret = new_secret()?;
    let now = kept_precision(SystemTime::now());
    let (key, was_revoked) = file.change(|keys| {
        let key = find(keys, &args.name)?;
        let was_revoked = key.revoked.is_some();
        key.rotate(secret.hash(), now, args.grace.map(|grace| kept_precision(now + grace)));
        if let Some(expires) = args.expires {
            key.expires = expires.time();
        }
        if let Some(expired) = key.expires.filter(|expires| *expires <= now) {
            let message = format!("the key `{}` expired at {}", key.name, timestamp(expired));
            return Err(CliError::usage(message)
                .hint("say until when the new secret is valid, with --expires")
                .into());
        }
        Ok::<_, anyhow::Error>((key.clone(), was_revoked))
    })?;
    if was_revoked {
        progress::note(&format!("`{}` was revoked; it is valid again, with the new secret only", key.name));
    }
    Ok(shown_once(&key, &secret, args.json)?)
}

fn find<'a>(keys: &'a mut [ApiKey], name: &str) -> anyhow::Result<&'a mut ApiKey> {
    keys.iter_mut().find(|key| key.name.as_str() == name).ok_or_else(|| {
        CliError::failure(format!("no such key: `{}`", echoed(name)))
            .hint("`greenroom keys list` shows all; keys of the configuration are changed there")
            .into()
    })
}

/// 256 bits from the kernel.
fn new_secret() -> anyhow::Result<ApiKeySecret> {
    let mut random = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut device| device.read_exact(&mut random))
        .context("cannot read random bytes from /dev/urandom")?;
    Ok(ApiKeySecret::new(random))
}

/// The key alone on stdout, so that a script can use it; everything else for people is a note.
fn shown_once(key: &ApiKey, secret: &ApiKeySecret, json: bool) -> serde_json::Result<String> {
    if json {
        let mut all = described(key, key.rotated.unwrap_or(key.created), "data folder");
        all["key"] = json!(secret.reveal());
        return Ok(serde_json::to_string_pretty(&all)? + "\n");
    }
    progress::note(&format!(
        "the key of `{}` ({}) is printed once; greenroom keeps only its hash",
        key.name, key.scopes
    ));
    Ok(format!("{}\n", secret.reveal()))
}

fn described(key: &ApiKey, now: SystemTime, source: &str) -> serde_json::Value {
    let scopes: Vec<_> = key.scopes.iter().map(ApiScope::as_str).collect();
    let is_stored = key.created != SystemTime::UNIX_EPOCH;
    json!({
        "name": key.name.as_str(),
        "state": key.state(now).as_str(),
        "scopes": scopes,
        "created": is_stored.then(|| timestamp(key.created)),
        "rotated": key.rotated.map(timestamp),
        "expires": key.expires.map(timestamp),
        "sessions": key.sessions_max,
        "revoked": key.revoked.map(timestamp),
        "oldSecretUntil": key.previous.as_ref().map(|previous| timestamp(previous.valid_until)),
        "source": source,
    })
}

impl From<KeyFileError> for CliError {
    fn from(error: KeyFileError) -> Self {
        Self::failure(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An expiry is a time from now, a date or a time; one that has passed, or is none, is refused.
    #[test]
    fn expiry_is_parsed() {
        assert_eq!(expiry("never"), Ok(Expiry::Never));
        let within = |text: &str, least: u64, most: u64| {
            let Expiry::At(time) = expiry(text).unwrap() else { panic!("{text}") };
            let seconds = time.duration_since(SystemTime::now()).unwrap().as_secs();
            assert!((least..=most).contains(&seconds), "{text}: {seconds}");
        };
        within("90d", 90 * 86_400 - 60, 90 * 86_400);
        within("12h", 12 * 3600 - 60, 12 * 3600);
        assert_eq!(expiry("2999-01-31"), Ok(Expiry::At(parse("2999-01-31T00:00:00Z").unwrap())));
        assert_eq!(expiry("2999-01-31T01:00:00+01:00"), expiry("2999-01-31"));
        for wrong in
            ["", "soon", "0s", "0d", "2001-01-01", "99999d", "-1d", "2999-02-30", "1970-01-01T00:00:00Z"]
        {
            assert!(expiry(wrong).is_err(), "{wrong}");
        }
        assert!(grace("0s").is_err() && grace("").is_err() && grace("10m").is_ok() && grace("7d").is_ok());
    }
}
