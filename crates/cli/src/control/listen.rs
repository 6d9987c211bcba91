//! The listening side: binds the socket of this process's run folder, for this user only, and serves HTTP/1.1 on it
//! until it is closed. Owned by the house, which opens it before the first agent is served and closes it last.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::place::{self, Address};

/// How many connections are served at once; further ones wait. A window that joins a server holds a few, and a
/// person looking in holds one, so this is dozens of windows. Each costs two buffers of 8 KiB.
const CONNECTIONS_MAX: usize = 512;

/// A connection that has sent no request for this long is closed. Nobody is cut short by it: whoever has something
/// to ask connects anew in microseconds.
const REQUEST_WITHIN: Duration = Duration::from_secs(300);

/// How long the last answers may take when the socket closes. They are small, and their readers are on this machine.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long the listener rests when the system cannot give it a connection, for want of descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A socket that is being served.
pub struct Listening {
    socket: PathBuf,
    closing: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Listening {
    /// Binds the run folder's socket and serves the routes on it. Streams among them end when `closing` is
    /// cancelled, which [`Listening::close`] does.
    pub fn open(run_folder: &Path, routes: Router, closing: CancellationToken) -> io::Result<Self> {
        let socket = place::socket(run_folder);
        let listener = bind(&socket)?;
        let task = AbortOnDropHandle::new(tokio::spawn(serve(listener, routes, closing.clone())));
        Ok(Self { socket, closing, task })
    }

    /// Ends every connection and takes the socket away.
    pub async fn close(self) {
        // First, so that nobody finds a socket that will not answer.
        let _ = fs::remove_file(&self.socket);
        self.closing.cancel();
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the control socket's task failed");
        }
    }
}

fn bind(socket: &Path) -> io::Result<UnixListener> {
    let address = Address::of(socket)?;
    let listener = UnixListener::bind(address.path())?;
    // The folder around it is private already, so there is no moment in which others could connect.
    fs::set_permissions(address.path(), fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn serve(listener: UnixListener, routes: Router, closing: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = closing.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, routes.clone(), closing.clone()));
                }
                // Whoever called has left again.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let _ = timeout(GOODBYE, async { while connections.join_next().await.is_some() {} }).await;
    connections.shutdown().await;
}

async fn connection(stream: UnixStream, routes: Router, closing: CancellationToken) {
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_WITHIN)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = closing.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the control socket broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;

    use crate::control::Asker;

    /// A socket deeper than an address can be long is bound and found; it is this user's alone, and gone when closed.
    #[tokio::test]
    async fn deep_folders_have_a_socket_too() {
        let folder = tempfile::tempdir().unwrap();
        for depth in [0, 10] {
            let run = (0..depth).fold(folder.path().to_owned(), |path, _| path.join("a-folder-name"));
            fs::create_dir_all(&run).unwrap();
            let routes = Router::new().route("/", get(|| async { "\"here\"" }));
            let listening = Listening::open(&run, routes, CancellationToken::new()).unwrap();
            let socket = place::socket(&run);
            assert_eq!(socket.as_os_str().len() > 107, depth > 0);
            assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
            let answer: String = Asker::open(&socket).await.unwrap().get("/").await.unwrap();
            assert_eq!(answer, "here");
            listening.close().await;
            assert!(!socket.exists());
        }
    }
}
