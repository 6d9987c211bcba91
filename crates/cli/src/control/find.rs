//! Finds the greenrooms that run with this data folder and have a control socket.

use std::path::{Path, PathBuf};

use greenroom_engine::run_folder::{self, RunningGreenroom};

use super::socket_path;

/// The file in a server's run folder that holds its URL.
pub const SERVER_FILE: &str = "server";

/// The file in a server's run folder that holds its network policy, for processes that would use the server.
pub const NETWORK_FILE: &str = "network";

/// The longest policy: two lists of a thousand rules of 300 bytes.
const NETWORK_BYTES_MAX: u64 = 1 << 20;

/// The longest URL: a host name has 255 bytes at most, and the rest of the URL is a few words.
const URL_BYTES_MAX: u64 = 4096;

/// A greenroom that listens on a control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlEndpoint {
    pub pid: u32,
    pub socket: PathBuf,
    /// Its URL, if it is a server.
    pub server: Option<String>,
    /// The network policy of a server, as [`crate::join::network_text`] writes it.
    pub network: Option<String>,
}

/// The greenrooms of a data folder that run and have a socket. Skips dead processes, foreign files, and processes that
/// serve no agents.
pub fn find_endpoints(data_folder: &Path) -> Vec<ControlEndpoint> {
    let endpoint = |RunningGreenroom { pid, path }| {
        let socket = socket_path::socket(&path);
        let server = greenroom_files::read_text(&path.join(SERVER_FILE), URL_BYTES_MAX).ok();
        let server = server.map(|url| url.trim().to_owned()).filter(|url| !url.is_empty());
        let network = greenroom_files::read_text(&path.join(NETWORK_FILE), NETWORK_BYTES_MAX).ok();
        socket.exists().then_some(ControlEndpoint { pid, socket, server, network })
    };
    run_folder::running_greenrooms(data_folder).into_iter().filter_map(endpoint).collect()
}
