//! The folder where the engine keeps downloads and traces of all sessions of one Node. The engine chooses it once, when it
//! connects to the browser: in the folder of the seat that came first. It has to outlive that seat for as long as others use
//! it, or their downloads would end half-way.

use std::{path::Path, sync::Arc};

use crate::seat_folder::SeatFolder;
use parking_lot::Mutex;

/// Where that is, in the folder of a seat.
pub(super) const FOLDER: &str = ".playwright-mcp/traces";

/// The seats of one Node, and the folders of those that have gone before others.
#[derive(Default)]
pub(super) struct Artifacts(Mutex<State>);

#[derive(Default)]
struct State {
    seats: usize,
    /// Of each only [`FOLDER`] is left.
    kept: Vec<Arc<SeatFolder>>,
}

impl Artifacts {
    /// A seat begins to use the engine.
    pub(super) fn enter(&self) {
        self.0.lock().seats += 1;
    }

    /// A seat has ended, and its folder goes, but for what others may still use. With the last seat the engine leaves the
    /// browser, and everything goes.
    pub(super) async fn leave(&self, folder: SeatFolder) {
        let folder = Arc::new(folder);
        let is_used = Path::is_dir(&folder.path().join(FOLDER));
        let (stays, gone) = {
            let mut state = self.0.lock();
            state.seats = state.seats.saturating_sub(1);
            let stays = is_used && state.seats > 0;
            if stays {
                state.kept.push(folder.clone());
            }
            (stays, if state.seats == 0 { std::mem::take(&mut state.kept) } else { Vec::new() })
        };
        match stays {
            true => folder.clear_but(FOLDER).await,
            false => folder.clear().await,
        }
        for folder in gone {
            folder.clear().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_folder::RunFolder;

    /// What others use of a seat's folder stays until the last of them has gone; all else goes with the seat.
    #[tokio::test]
    async fn it_outlives_its_seat() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let seat = || SeatFolder::make(&run, None).unwrap();
        let (first, second, third) = (seat(), seat(), seat());
        let used = first.path().join(FOLDER);
        std::fs::create_dir_all(&used).unwrap();
        for file in ["mine", ".playwright-mcp/page.yml", ".playwright-mcp/traces/download"] {
            std::fs::write(first.path().join(file), "").unwrap();
        }
        let paths = [&first, &second, &third].map(|folder| folder.path().to_owned());
        let artifacts = Artifacts::default();
        (0..3).for_each(|_| artifacts.enter());
        artifacts.leave(first).await;
        assert!(used.join("download").exists());
        assert!(!paths[0].join("mine").exists() && !paths[0].join(".playwright-mcp/page.yml").exists());
        artifacts.leave(second).await;
        assert!(used.exists() && !paths[1].exists());
        artifacts.leave(third).await;
        assert!(!paths[0].exists() && !paths[2].exists());
    }
}
