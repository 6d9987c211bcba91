//! A browser behind something that wants to know who comes.

use std::net::SocketAddr;

use greenroom_testkit::{Site, Theirs};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use super::super::{
    house::{Data, House, launch},
    look,
};

const KEY: &str = "s3cret-key";

/// Lets through to a debugger whoever sends the key with the first request of a connection.
async fn door(port: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.windows(4).any(|end| end == b"\r\n\r\n") {
                    if stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
                        return;
                    }
                }
                let knows = String::from_utf8_lossy(&head).lines().any(|line| {
                    line.split_once(": ")
                        .is_some_and(|(name, value)| name.eq_ignore_ascii_case("x-key") && value == KEY)
                });
                if !knows {
                    let no = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    let _ = stream.write_all(no.as_bytes()).await;
                    return;
                }
                let mut browser = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                browser.write_all(&head).await.unwrap();
                let _ = copy_bidirectional(&mut stream, &mut browser).await;
            });
        }
    });
    address
}

/// Headers of the configuration reach the debugger with every connection, greenroom's and the engines', and are seen
/// nowhere else: in no list, no log, and on no command line.
#[tokio::test]
async fn headers_open_the_door() {
    let (site, theirs) = (Site::start().await, Theirs::start().await);
    let url = format!("http://{}", door(theirs.port()).await);
    for engine in ["playwright", "devtools"] {
        let data = Data::new();
        let config = data.path().join("browsers.toml");
        let entry = |more: &str| format!("[[browsers]]\nurl = \"{url}\"\nengine = \"{engine}\"\n{more}");
        let house = async |text: String| {
            std::fs::write(&config, text).unwrap();
            House::of(launch(data.path(), &["--config", config.to_str().unwrap(), "--log", "trace"])).await
        };
        let (tool, arguments) = match engine {
            "playwright" => ("browser_navigate", json!({ "url": site.url("/title?t=in") })),
            _ => ("new_page", json!({ "url": site.url("/title?t=in") })),
        };
        let without = house(entry("")).await;
        let refused = without.call("", tool, arguments.clone()).await;
        assert!(refused.failed().contains("401"), "{}", refused.text());
        without.end().await;

        let with = house(entry(&format!("headers = {{ X-Key = \"{KEY}\" }}\n"))).await;
        with.call("", tool, arguments).await.ok();
        let listed = with.call("", "list_browsers", json!({})).await;
        assert!(listed.ok().contains("connected") && !listed.response.to_string().contains(KEY));
        for pid in look::tagged(&look::run_of(data.path(), with.client.pid())) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(KEY), "on a command line");
        }
        assert!(!with.client.stderr().contains(KEY), "in the log");
        with.end().await;
    }
}
