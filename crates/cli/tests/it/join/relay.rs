//! A network between a front and its server that the test can cut.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Passes connections on to a server. Dropping it ends all of them.
pub struct TcpRelay {
    address: SocketAddr,
    cuts: watch::Sender<()>,
    _task: JoinSet<()>,
}

impl TcpRelay {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, cut) = watch::channel(());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut from, _) = listener.accept().await.unwrap();
                let mut cut = cut.clone();
                cut.mark_unchanged();
                connections.spawn(async move {
                    let mut to = TcpStream::connect(server).await.unwrap();
                    tokio::select! {
                        _ = copy_bidirectional(&mut from, &mut to) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts, _task: task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Breaks every current connection. New ones are passed on.
    pub fn cut(&self) {
        self.cuts.send_replace(());
    }
}
