//! A program that prints where it listens: `ready: http://HOST:PORT/mcp` on stdout, or `https://`.

use std::{net::SocketAddr, process::ExitStatus};

use crate::{
    client::{Client, Launch},
    deadline::eventually,
    http::connection::{HttpConnection, Reply},
    process::{Signal, connections},
};

/// A running server. Dropping it kills the program.
pub struct Server {
    process: Client,
    address: SocketAddr,
    is_encrypted: bool,
}

impl Server {
    /// Starts the program and waits for its address.
    pub async fn start(launch: Launch) -> Self {
        let process = launch.spawn();
        let (scheme, address) = eventually("the line `ready: …` of the server", || {
            let lines = process.transcript();
            lines.iter().find_map(|line| {
                let url = line.strip_prefix("<-- ready: ")?.trim_end_matches("/mcp");
                let (scheme, address) = url.split_once("://")?;
                Some((scheme.to_owned(), address.parse().ok()?))
            })
        })
        .await;
        Self { process, address, is_encrypted: scheme == "https" }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http{}://{}", if self.is_encrypted { "s" } else { "" }, self.address)
    }

    /// A connection of its own, for one request or half of one.
    pub async fn connection(&self) -> HttpConnection {
        HttpConnection::connect(self.address).await
    }

    /// Asks for a page.
    pub async fn get(&self, path: &str) -> Reply {
        self.connection().await.request("GET", path, &[], None).await
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How many connections the server has accepted and not closed. A connection whose client has left counts until the
    /// server notices.
    pub fn connections(&self) -> usize {
        connections(self.address)
    }

    pub fn stderr(&self) -> String {
        self.process.stderr()
    }

    /// Returns when stderr contains `text`.
    pub async fn wait_for_stderr(&self, text: &str) {
        self.process.wait_for_stderr(text).await;
    }

    /// Sends a signal, unless the program has ended.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Returns when the program has ended.
    pub async fn wait(&self) -> ExitStatus {
        self.process.wait().await
    }

    /// Asks the program to end, and waits for it.
    pub async fn stop(&self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait().await
    }

    /// Kills the program with SIGKILL, so that it cannot clean up, and waits for its end.
    pub async fn kill(&self) {
        self.process.kill();
        self.wait().await;
    }
}
