//! A TCP proxy in front of a browser's debugger: it counts connections, records their first requests, lets in those with
//! the right headers, and can cut all of them.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A proxy that admits connections whose first request has all required headers. It ends with the runtime of its test.
pub struct DebuggerProxy {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
    cut: watch::Sender<()>,
}

impl DebuggerProxy {
    /// A proxy in front of a port of this machine. `lines` are headers that a connection's first request must have, in
    /// any case.
    pub async fn open(upstream_port: u16, lines: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let lines: Arc<[String]> =
            lines.iter().map(|line| format!("\r\n{}\r\n", line.to_lowercase())).collect();
        let recorded_heads = heads.clone();
        let cut = watch::Sender::new(());
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let lines = lines.clone();
                let recorded_heads = recorded_heads.clone();
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    let head = head(&mut stream).await?;
                    let request_head = String::from_utf8_lossy(&head).to_lowercase();
                    if !lines.iter().all(|line| request_head.contains(line)) {
                        let no = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                        return stream.write_all(no).await;
                    }
                    recorded_heads.lock().unwrap().push(request_head);
                    let mut inside = TcpStream::connect(("127.0.0.1", upstream_port)).await?;
                    inside.write_all(&head).await?;
                    tokio::select! {
                        copied = copy_bidirectional(&mut stream, &mut inside) => copied.map(drop),
                        _ = cut.changed() => Ok(()),
                    }
                });
            }
        });
        Self { port, heads, cut }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends all connections. New ones are accepted.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }

    /// The first request of every connection that was let in, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

/// A request up to its body.
async fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}
