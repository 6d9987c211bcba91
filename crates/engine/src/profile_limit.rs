//! How much disk space a browser's profile may take (`pool.profile_bytes_max`).
//!
//! Chromium limits what pages store in a temporary profile, but not its caches, and nothing in a permanent one. So greenroom
//! measures the profile: before a browser starts with a permanent one, and again and again while the browser runs.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use greenroom_core::{Lost, StartError};
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    browser_handle::BrowserHandle,
    browser_limits::mebibytes,
    disk_use::{self, folder_bytes},
    profile::Profile,
};

/// How many files of a profile are measured. A profile that a person has used for years has some ten thousand.
const ENTRIES_MAX: usize = 200_000;

/// A measurement is followed by a pause of this many times its own duration, so that measuring takes less than 1 % of a core.
const PAUSE_PER_DURATION: u32 = 100;

/// Refuses a permanent profile that is too large already. A browser would end as soon as it runs.
pub(crate) async fn check(profile: &Profile, bytes_max: Option<u64>) -> Result<(), StartError> {
    let (Profile::Persistent { path, .. }, Some(max)) = (profile, bytes_max) else { return Ok(()) };
    match measure(path).await {
        Ok(bytes) if bytes > max => Err(StartError::new(format!(
            "the profile takes {}, and {} are allowed: `{}`",
            mebibytes(bytes),
            mebibytes(max),
            path.display()
        ))
        .hint("remove what it does not need, or raise `pool.profile_bytes_max`")),
        Ok(_) => Ok(()),
        // The browser will say more.
        Err(error) => {
            tracing::debug!(%error, path = %path.display(), "cannot measure a profile");
            Ok(())
        }
    }
}

/// Resolves when the profile of this browser takes too much space. Never for an attached browser.
pub(crate) async fn exceeded(browser: &BrowserHandle) -> Lost {
    let Some(chromium) = browser.started() else { return std::future::pending().await };
    let Some(max) = chromium.limits().profile_bytes_max else { return std::future::pending().await };
    let path = chromium.profile().path();
    loop {
        let began = Instant::now();
        match measure(path).await {
            Ok(bytes) if bytes > max => {
                let why = format!(
                    "its profile takes {}, and {} are allowed (pool.profile_bytes_max)",
                    mebibytes(bytes),
                    mebibytes(max)
                );
                return Lost::HealthCheckFailed(why.into());
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, path = %path.display(), "cannot measure a profile"),
        }
        sleep(pause_after(began.elapsed())).await;
    }
}

fn pause_after(measured_for: Duration) -> Duration {
    (measured_for * PAUSE_PER_DURATION).max(disk_use::MEASURE_EVERY)
}

async fn measure(path: &Path) -> io::Result<u64> {
    let path = path.to_owned();
    spawn_blocking(move || folder_bytes(&path, ENTRIES_MAX)).await.map_err(io::Error::from).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A permanent profile over the limit is refused with both sizes, the folder and the setting, and no file of it is
    /// removed.
    #[tokio::test]
    async fn large_profile_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::open_persistent(folder.path()).unwrap();
        let log = |n: usize| folder.path().join(format!("console-2026-11-16T05-52-17-{n:03}Z.log"));
        for n in 0..100 {
            fs::write(log(n), vec![1; 32 << 10]).unwrap();
        }
        assert!(check(&profile, None).await.is_ok());
        assert!(check(&profile, Some(64 << 20)).await.is_ok());
        let error = check(&profile, Some(2 << 20)).await.unwrap_err();
        let path = folder.path().display();
        assert_eq!(error.to_string(), format!("the profile takes 4 MiB, and 2 MiB are allowed: `{path}`"));
        assert!(error.hint.unwrap().contains("`pool.profile_bytes_max`"));
        assert!((0..100).all(|n| log(n).exists()));
    }

    /// Large profiles are measured less often.
    #[test]
    fn measuring_costs_little() {
        assert_eq!(pause_after(Duration::from_millis(1)), disk_use::MEASURE_EVERY);
        assert_eq!(pause_after(Duration::from_secs(1)), Duration::from_secs(100));
    }
}
