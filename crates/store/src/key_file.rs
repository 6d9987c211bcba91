//! API keys on disk: `keys.json` in the data folder, for this user only, without secrets.
//!
//! `greenroom keys` changes the file, and servers that use the data folder read it when it has changed. A change takes a
//! lock, reads the file, and replaces it as a whole, so that a reader never sees half of one, and two commands at once do
//! not lose each other's change. The file is apart from the database of records, which can be switched off, moved and set
//! aside when it is broken.

use std::{
    collections::HashSet,
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use greenroom_core::{
    ApiKey, ApiKeyHash, ApiKeyName, ApiScope,
    api_key::PreviousSecret,
    time::{parse, timestamp_ms},
};
use serde::{Deserialize, Serialize};

/// How many keys there may be. A server looks a key up in the same time however many there are; a list of more is no
/// longer one that a person keeps.
pub const KEYS_MAX: usize = 10_000;

/// The largest file: each key takes some 400 bytes.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

const VERSION: u32 = 1;

/// The file of a data folder, whether it exists or not.
#[derive(Debug, Clone)]
pub struct KeyFile {
    path: PathBuf,
    lock: PathBuf,
}

/// What tells one version of the file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyFileStamp {
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("cannot read the API keys in `{}`: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot write the API keys to `{}`: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("the file of API keys is damaged: `{}`: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
}

impl KeyFile {
    pub fn of(data_dir: &Path) -> Self {
        Self { path: data_dir.join("keys.json"), lock: data_dir.join("keys.lock") }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file's stamp now; `None` if there is no file.
    pub fn stamp(&self) -> Option<KeyFileStamp> {
        let about = fs::metadata(&self.path).ok()?;
        let modified = (about.mtime(), about.mtime_nsec());
        Some(KeyFileStamp { inode: about.ino(), modified, bytes: about.len() })
    }

    /// All keys, revoked and expired ones included. Without a file there are none.
    pub fn read(&self) -> Result<Vec<ApiKey>, KeyFileError> {
        match greenroom_files::read_text(&self.path, FILE_BYTES_MAX) {
            Ok(text) => self.keys(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(KeyFileError::Read { path: self.path.clone(), source }),
        }
    }

    /// Changes the keys. No other process changes them meanwhile. If `change` fails, the file stays as it was.
    pub fn change<T, E: From<KeyFileError>>(
        &self,
        change: impl FnOnce(&mut Vec<ApiKey>) -> Result<T, E>,
    ) -> Result<T, E> {
        let write = |source| KeyFileError::Write { path: self.path.clone(), source };
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(write)?;
        }
        let lock = greenroom_files::private().create(true).truncate(false).write(true).open(&self.lock);
        let lock = lock.map_err(write)?;
        // The lock is released when the file closes, at the latest with the process.
        lock.lock().map_err(write)?;
        let mut keys = self.read()?;
        let changed = change(&mut keys)?;
        self.replace(&keys).map_err(write)?;
        Ok(changed)
    }

    fn replace(&self, keys: &[ApiKey]) -> io::Result<()> {
        let file = KeyFileJson { version: VERSION, keys: keys.iter().map(KeyJson::from).collect() };
        let text = serde_json::to_string_pretty(&file)? + "\n";
        let part = self.path.with_extension(format!("{}.part", std::process::id()));
        let written = (|| {
            let mut file = greenroom_files::private().create(true).truncate(true).write(true).open(&part)?;
            file.write_all(text.as_bytes())?;
            // A revocation must survive a power cut.
            file.sync_all()?;
            fs::rename(&part, &self.path)?;
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        })();
        written.inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
    }

    fn keys(&self, text: &str) -> Result<Vec<ApiKey>, KeyFileError> {
        let damaged = |why: String| KeyFileError::Damaged { path: self.path.clone(), why };
        let file: KeyFileJson = serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        if file.version != VERSION {
            return Err(damaged(format!(
                "its version is {}, and this greenroom knows {VERSION}",
                file.version
            )));
        }
        if file.keys.len() > KEYS_MAX {
            return Err(damaged(format!("it has more than {KEYS_MAX} keys")));
        }
        let mut names = HashSet::new();
        let mut keys = Vec::with_capacity(file.keys.len());
        for (at, key) in file.keys.into_iter().enumerate() {
            let key = key.entry().map_err(|why| damaged(format!("key {}: {why}", at + 1)))?;
            if !names.insert(key.name.clone()) {
                return Err(damaged(format!("key {}: the name `{}` is there twice", at + 1, key.name)));
            }
            keys.push(key);
        }
        Ok(keys)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFileJson {
    version: u32,
    keys: Vec<KeyJson>,
}

/// A key in the file. Times are in RFC 3339.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyJson {
    name: String,
    sha256: String,
    scopes: Vec<String>,
    created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rotated: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sessions: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<PreviousJson>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreviousJson {
    sha256: String,
    valid_until: String,
}

impl From<&ApiKey> for KeyJson {
    fn from(key: &ApiKey) -> Self {
        Self {
            name: key.name.to_string(),
            sha256: key.hash.to_hex(),
            scopes: key.scopes.iter().map(|scope| scope.to_string()).collect(),
            created: timestamp_ms(key.created),
            rotated: key.rotated.map(timestamp_ms),
            expires: key.expires.map(timestamp_ms),
            sessions: key.sessions_max,
            revoked: key.revoked.map(timestamp_ms),
            previous: key.previous.as_ref().map(|previous| PreviousJson {
                sha256: previous.hash.to_hex(),
                valid_until: timestamp_ms(previous.valid_until),
            }),
        }
    }
}

impl KeyJson {
    fn entry(self) -> Result<ApiKey, String> {
        let time = |text: &str| parse(text).ok_or_else(|| "a time is not in RFC 3339".to_owned());
        let optional = |text: Option<&str>| text.map(time).transpose();
        let hash = |text: &str| ApiKeyHash::from_hex(text).ok_or_else(|| "`sha256` is no hash".to_owned());
        let previous = self.previous.map(|previous| {
            Ok::<_, String>(PreviousSecret {
                hash: hash(&previous.sha256)?,
                valid_until: time(&previous.valid_until)?,
            })
        });
        let scopes = self.scopes.iter().map(|scope| scope.parse::<ApiScope>());
        Ok(ApiKey {
            name: ApiKeyName::new(&self.name).map_err(|error| error.to_string())?,
            hash: hash(&self.sha256)?,
            scopes: scopes.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
            created: time(&self.created)?,
            rotated: optional(self.rotated.as_deref())?,
            expires: optional(self.expires.as_deref())?,
            sessions_max: self.sessions,
            revoked: optional(self.revoked.as_deref())?,
            previous: previous.transpose()?,
        })
    }
}

/// Whether a data folder has keys, revoked and expired ones included. A file that cannot be read counts as one with keys:
/// a server must not take it for a reason to accept everyone.
pub fn has_keys(data_dir: &Path) -> bool {
    KeyFile::of(data_dir).read().map_or(true, |keys| !keys.is_empty())
}

/// A time as the file keeps it, which has no smaller unit than a millisecond.
pub fn kept_precision(time: SystemTime) -> SystemTime {
    parse(&timestamp_ms(time)).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt, thread, time::Duration};

    use greenroom_core::ApiScopes;

    use super::*;

    fn key(name: &str) -> ApiKey {
        let created = SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_348_930_042);
        ApiKey::new(ApiKeyName::new(name).unwrap(), ApiKeyHash::of(name), ApiScopes::default(), created)
    }

    fn add(file: &KeyFile, key: ApiKey) {
        file.change(|keys| {
            keys.push(key);
            Ok::<_, KeyFileError>(())
        })
        .unwrap();
    }

    /// Keys read back with everything that they have; the file is for this user only and has no secret; its stamp changes
    /// with each change.
    #[test]
    fn keys_are_kept() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(&data.path().join("new"));
        assert_eq!(file.read().unwrap(), []);
        assert!(file.stamp().is_none() && !has_keys(&data.path().join("new")));
        let full = ApiKey {
            rotated: Some(key("a").created + Duration::from_secs(1)),
            expires: Some(key("a").created + Duration::from_secs(2)),
            sessions_max: Some(7),
            revoked: Some(key("a").created + Duration::from_secs(3)),
            previous: Some(PreviousSecret { hash: ApiKeyHash::of("old"), valid_until: key("a").created }),
            scopes: ApiScopes::all(),
            ..key("full")
        };
        add(&file, key("plain"));
        let stamp = file.stamp();
        add(&file, full.clone());
        assert_ne!(file.stamp(), stamp);
        assert_eq!(file.read().unwrap(), [key("plain"), full]);
        assert!(has_keys(&data.path().join("new")));
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    }

    /// Changes of several processes at once are all kept.
    #[test]
    fn changes_at_once_are_not_lost() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(data.path());
        thread::scope(|scope| {
            for number in 0..8 {
                let file = &file;
                scope.spawn(move || add(file, key(&format!("k{number}"))));
            }
        });
        assert_eq!(file.read().unwrap().len(), 8);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 2, "the file and the lock, no parts");
    }

    /// A change that fails leaves the file as it was; a damaged file is neither read as empty nor overwritten.
    #[test]
    fn damaged_files_are_not_overwritten() {
        let data = tempfile::tempdir().unwrap();
        let file = KeyFile::of(data.path());
        add(&file, key("a"));
        let before = file.stamp();
        let refused = file.change(|keys| {
            keys.clear();
            Err::<(), _>(KeyFileError::Damaged { path: PathBuf::new(), why: "no".to_owned() })
        });
        assert!(refused.is_err() && file.stamp() == before);
        let good = fs::read_to_string(file.path()).unwrap();
        for (from, to) in [
            ("\"version\": 1", "\"version\": 2"),
            ("\"name\": \"a\"", "\"name\": \"local\""),
            ("\"name\"", "\"nome\""),
            ("browse", "root"),
            ("2026-", "26-"),
            ("{", ""),
        ] {
            fs::write(file.path(), good.replacen(from, to, 1)).unwrap();
            let error = file.read().unwrap_err().to_string();
            assert!(error.starts_with("the file of API keys is damaged"), "{to}: {error}");
            assert!(file.change(|_| Ok::<_, KeyFileError>(())).is_err());
            assert!(has_keys(data.path()), "{to}");
        }
        assert_eq!(fs::read_to_string(file.path()).unwrap(), good.replacen('{', "", 1));
    }
}
