//! The audit log of refused connections, from the real binary.

use greenroom_testkit::{
    Launch, Site,
    http::{HttpMcpClient, Server},
    text_of, until_some,
};
use serde_json::{Value, json};

use crate::{
    control::run_verb::run_verb_in,
    real::fixture::{DataFolder, REVISION},
};

async fn serve(data: &DataFolder, flags: &[&str]) -> Server {
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"])
        .arg(data.path())
        .args(["--network-preset", "guarded"])
        .args(flags);
    Server::start(launch).await
}

/// The lines that `greenroom logs --audit` prints with these further arguments.
async fn audit_lines(data: &DataFolder, arguments: &[&str]) -> Vec<Value> {
    let output = run_verb_in(data.path(), &[&["logs", "--audit", "--json"], arguments].concat()).await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn total<'a>(lines: impl IntoIterator<Item = &'a Value>) -> u64 {
    lines.into_iter().map(|line| line["count"].as_u64().unwrap()).sum()
}

/// A refused navigation and refused requests of a page are in the audit log at once, with session, owner, pool, rule and
/// target, and no more of their addresses than host and port. The metric counts every request. The log outlives the
/// server.
#[tokio::test]
async fn refusals_are_audited_with_session_and_owner() {
    let data = DataFolder::new();
    let (refused, allowed) = (Site::start().await, Site::start().await);
    let allow = format!("127.0.0.1:{}", allowed.port());
    let server = serve(&data, &["--network-allow", &allow, "--network-deny", "*.hostile.example"]).await;
    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let call = async |session: &str, tool: &str, mut arguments: Value| {
        arguments["sessionId"] = json!(session);
        text_of(&client.call(tool, arguments).await)
    };

    call("a", "browser_navigate", json!({ "url": refused.url("/path?token=secret") })).await;
    let target = format!("127.0.0.1:{}", refused.port());
    let navigation = audit_lines(&data, &[]).await.remove(0);
    let expected = json!({
        "time": navigation["time"], "pid": server.pid(), "owner": "local", "session": "a", "pool": "DEFAULT",
        "event": "network_refused", "rule": "loopback", "target": target, "count": navigation["count"],
    });
    assert_eq!(navigation, expected);

    call("b", "browser_navigate", json!({ "url": allowed.url("/title") })).await;
    let requests = format!(
        "async () => {{ for (let n = 0; n < 50; n += 1) await fetch('{url}', {{ mode: 'no-cors' }}).catch(() => null); \
         const load = (src) => new Promise((done) => {{ const image = new Image(); \
         image.onerror = image.onload = done; image.src = src; }}); \
         await load('http://x.hostile.example/secret?token=secret#secret'); \
         await load('http://' + 'a'.repeat(60) + '.hostile.example:81/'); \
         await load('http://b\\u00fccher.hostile.example/'); return 'tried'; }}",
        url = refused.url("/secret")
    );
    let answer = call("b", "browser_evaluate", json!({ "function": requests })).await;
    assert!(answer.contains("tried"), "{answer}");
    let metrics = server.get("/metrics").await.body().await;
    assert!(server.stop().await.success());

    let of_page = audit_lines(&data, &["--session", "b"]).await;
    let (denied, loopback): (Vec<_>, Vec<_>) = of_page.iter().partition(|line| line["rule"] == "denied");
    assert_eq!(total(loopback.iter().copied()), 50, "{loopback:#?}");
    assert!(loopback.len() <= 2 && loopback.iter().all(|line| line["target"] == target), "{loopback:#?}");
    let targets: Vec<_> = denied.iter().map(|line| line["target"].as_str().unwrap()).collect();
    let long = format!("{}.hostile.example:81", "a".repeat(60));
    assert_eq!(targets, ["x.hostile.example:80", &long, "xn--bcher-kva.hostile.example:80"]);
    assert!(denied.iter().all(|line| line["denied_by"] == "*.hostile.example"), "{denied:#?}");

    let all = audit_lines(&data, &[]).await;
    assert!(!format!("{all:?}").contains("secret"), "{all:#?}");
    for rule in ["loopback", "denied"] {
        let count = total(all.iter().filter(|line| line["rule"] == rule));
        let line = format!("greenroom_network_refusals_total{{pool=\"DEFAULT\",rule=\"{rule}\"}} {count}");
        assert!(metrics.lines().any(|one| one == line), "{line}: {metrics}");
    }
    assert_eq!(audit_lines(&data, &["--owner", "ann"]).await, [] as [Value; 0]);
    let text = run_verb_in(data.path(), &["logs", "--audit", "--owner", "local"]).await.stdout;
    assert!(text.contains(&format!("session \"a\", pool DEFAULT: refused {target}: loopback")), "{text}");
    assert_eq!(refused.requests(), vec![]);
}

/// A log that cannot be written costs no call and no refusal; `/ready`, the metrics and one warning say so.
#[tokio::test]
async fn unwritable_audit_log_is_told() {
    let data = DataFolder::new();
    let refused = Site::start().await;
    std::fs::create_dir(data.path().join("audit.jsonl")).unwrap();
    let server = serve(&data, &[]).await;
    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    for path in ["/one", "/two"] {
        let arguments = json!({ "url": refused.url(path), "sessionId": "a" });
        let answer = text_of(&client.call("browser_navigate", arguments).await);
        assert!(answer.contains("the network policy refused connections"), "{answer}");
    }
    let told = async || {
        let ready = server.get("/ready").await.json().await;
        ready["audit"].as_str().map(ToOwned::to_owned)
    };
    let told = until_some("the trouble of the audit log", told).await;
    assert!(told.starts_with("not written: Is a directory"), "{told}");
    let metrics = server.get("/metrics").await.body().await;
    let lost = metrics.lines().find_map(|line| line.strip_prefix("greenroom_audit_events_lost "));
    assert!(lost.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    let stderr = server.stderr();
    assert_eq!(stderr.matches("cannot write the audit log").count(), 1, "{stderr}");
    assert_eq!(refused.requests(), vec![]);
    assert!(server.stop().await.success());
}
