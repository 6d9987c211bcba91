//! The server of the control socket: binds the socket of this process's run folder, for this user only, and serves
//! HTTP/1.1 on it until `close`. The app owns this server, opens it before it serves the first agent and closes it
//! last.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use axum::Router;
use greenroom_gateway::front::http::{self, ConnectionLimits};
use tokio::net::UnixListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::socket_path::{self, SocketAddress};

/// The control socket with the task that serves it.
pub struct ControlServer {
    socket: PathBuf,
    closing: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl ControlServer {
    /// Binds the run folder's socket and serves the routes on it. Streams among them end when `closing` is
    /// cancelled, which [`ControlServer::close`] does.
    pub fn open(run_folder: &Path, routes: Router, closing: CancellationToken) -> io::Result<Self> {
        let socket = socket_path::socket(run_folder);
        let listener = bind(&socket)?;
        let task = AbortOnDropHandle::new(tokio::spawn(http::serve(
            listener,
            routes,
            ConnectionLimits::default(),
            closing.clone(),
        )));
        Ok(Self { socket, closing, task })
    }

    /// Ends every connection and removes the socket.
    pub async fn close(self) {
        // Remove the socket first, so that no process finds one that will not answer.
        let _ = fs::remove_file(&self.socket);
        self.closing.cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the control socket's task failed");
        }
    }
}

fn bind(socket: &Path) -> io::Result<UnixListener> {
    let address = SocketAddress::new(socket)?;
    let listener = UnixListener::bind(address.path())?;
    // The folder around it is already private, so other users cannot connect even before this line.
    fs::set_permissions(address.path(), fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;

    use crate::control::ControlClient;

    /// A socket whose path is longer than a socket address can be bound and found; only this user may use it; `close`
    /// removes it.
    #[tokio::test]
    async fn deep_folder_has_a_control_socket() {
        let folder = tempfile::tempdir().unwrap();
        for depth in [0, 10] {
            let run = (0..depth).fold(folder.path().to_owned(), |path, _| path.join("a-folder-name"));
            fs::create_dir_all(&run).unwrap();
            let routes = Router::new().route("/", get(|| async { "\"here\"" }));
            let listening = ControlServer::open(&run, routes, CancellationToken::new()).unwrap();
            let socket = socket_path::socket(&run);
            assert_eq!(socket.as_os_str().len() > 107, depth > 0);
            assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
            let answer: String = ControlClient::open(&socket).await.unwrap().get("/").await.unwrap();
            assert_eq!(answer, "here");
            listening.close().await;
            assert!(!socket.exists());
        }
    }
}
