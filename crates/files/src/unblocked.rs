//! Reading for async code: the same refusals and limits, on a thread that may wait for the disk.

use std::{io, path::Path};

/// See [`crate::read`].
pub async fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let path = path.to_owned();
    on_own_thread(move || crate::read(&path, bytes_max)).await
}

/// See [`crate::read_text`].
pub async fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let path = path.to_owned();
    on_own_thread(move || crate::read_text(&path, bytes_max)).await
}

async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
