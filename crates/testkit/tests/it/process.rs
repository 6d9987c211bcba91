//! The process helpers, against processes whose facts are known.

use greenroom_testkit::{Launch, eventually, fake_engine_path, process};
use serde_json::{Value, json};

/// Tagged processes are found while they live and only then, with plausible figures.
#[tokio::test]
async fn tagged_processes_are_found_while_they_live() {
    let tag = format!("tag-{}", std::process::id());
    let client = Launch::new(fake_engine_path()).env("KIT_TAG", &tag).spawn();
    client.request("ping", Value::Null).await;
    let pid = client.pid();
    assert_eq!(process::processes_with_env("KIT_TAG", &tag), [pid]);
    assert!(process::alive(pid));
    assert!(process::open_fds(pid) >= 3);
    assert!(process::rss(pid) > 100_000);
    assert!((10_000..=process::rss(pid) + 10_000_000).contains(&process::pss_tree(pid)));

    client.call("set", json!({"key": "k", "value": "v"})).await;
    client.kill();
    process::wait_gone(pid).await;
    assert!(process::processes_with_env("KIT_TAG", &tag).is_empty());
    client.wait().await;
    assert!(!process::alive(pid) && !process::zombie(pid));
    process::wait_gone(pid).await;
}

/// Descendants are found at every depth, parents first, and their memory counts.
#[tokio::test]
async fn descendants_are_found_at_every_depth() {
    let client = Launch::new("/bin/sh").args(["-c", "sh -c 'cat; true'; true"]).spawn();
    let family = eventually("a grandchild", || {
        let family = process::children(client.pid());
        (family.len() == 2).then_some(family)
    })
    .await;
    assert_eq!(process::children(family[0]), [family[1]]);
    assert!(process::pss_tree(client.pid()) > process::pss_tree(family[0]));
    client.close_stdin().await;
    assert!(client.wait().await.success());
    assert!(process::children(client.pid()).is_empty());
}

/// A connection counts from when it is accepted until the server closes it, though its client has left.
#[tokio::test]
async fn connections_are_counted() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = || process::connections(address);
    assert_eq!(count(), 0);
    let client = tokio::net::TcpStream::connect(address).await.unwrap();
    assert_eq!(count(), 0, "it is not accepted");
    let (accepted, _) = listener.accept().await.unwrap();
    assert_eq!(count(), 1);
    drop(client);
    assert_eq!(count(), 1, "the server has not noticed");
    drop(accepted);
    assert_eq!(count(), 0);
}
