//! The folder where the engine keeps downloads and traces of all sessions of one Node process. The engine chooses it once,
//! when it connects to the browser: in the folder of the first seat. It has to outlive that seat as long as others use it,
//! or their downloads would fail.

use std::{path::Path, sync::Arc};

use crate::seat_folder::SeatFolder;
use parking_lot::Mutex;

/// Its path in the folder of a seat.
pub(super) const SHARED_FOLDER: &str = ".playwright-mcp/traces";

/// The seats of one Node process, and the folders of those that have closed before others.
#[derive(Default)]
pub(super) struct SharedOutputFolder(Mutex<SharedFolderState>);

#[derive(Default)]
struct SharedFolderState {
    seats: usize,
    /// Only [`SHARED_FOLDER`] is left in each.
    retained: Vec<Arc<SeatFolder>>,
}

impl SharedOutputFolder {
    /// A seat begins to use the engine.
    pub(super) fn seat_opened(&self) {
        self.0.lock().seats += 1;
    }

    /// A seat has ended. Removes its folder, except the part that other seats may still use. With the last seat the engine
    /// disconnects from the browser, and everything is removed.
    pub(super) async fn seat_closed(&self, folder: SeatFolder) {
        let folder = Arc::new(folder);
        let has_shared_folder = Path::is_dir(&folder.path().join(SHARED_FOLDER));
        let (is_retained, removed) = {
            let mut state = self.0.lock();
            state.seats = state.seats.saturating_sub(1);
            let is_retained = has_shared_folder && state.seats > 0;
            if is_retained {
                state.retained.push(folder.clone());
            }
            (is_retained, if state.seats == 0 { std::mem::take(&mut state.retained) } else { Vec::new() })
        };
        match is_retained {
            true => folder.clear_except(SHARED_FOLDER).await,
            false => folder.clear().await,
        }
        for folder in removed {
            folder.clear().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::RunFolder;

    /// The part of a seat's folder that others use stays until the last of them has closed; the rest is removed with the
    /// seat.
    #[tokio::test]
    async fn shared_folder_outlives_the_first_seat() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let seat = || SeatFolder::make(&run, None).unwrap();
        let first = seat();
        let second = seat();
        let third = seat();
        let used = first.path().join(SHARED_FOLDER);
        std::fs::create_dir_all(&used).unwrap();
        for file in ["mine", ".playwright-mcp/page.yml", ".playwright-mcp/traces/download"] {
            std::fs::write(first.path().join(file), "").unwrap();
        }
        let paths = [&first, &second, &third].map(|folder| folder.path().to_owned());
        let output = SharedOutputFolder::default();
        (0..3).for_each(|_| output.seat_opened());
        output.seat_closed(first).await;
        assert!(used.join("download").exists());
        assert!(!paths[0].join("mine").exists() && !paths[0].join(".playwright-mcp/page.yml").exists());
        output.seat_closed(second).await;
        assert!(used.exists() && !paths[1].exists());
        output.seat_closed(third).await;
        assert!(!paths[0].exists() && !paths[2].exists());
    }
}
