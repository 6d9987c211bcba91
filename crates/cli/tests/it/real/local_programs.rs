//! What other programs of the machine can do at the sockets of greenroom and of the processes that it started: without a
//! secret none of them drives a browser, and a program of another user reaches nothing at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::process::CommandExt,
    process::Command,
};

use greenroom_testkit::{Launch, Site, http::Server, process::children};
use serde_json::{Value, json};

use super::{
    fixture::{DataFolder, GatewayFixture},
    inspect,
};

/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// Sends each request to its socket, and prints what came back as JSON: the answer, or the error. A tunnel that opens is used
/// for the second request of its attempt. It waits until the other end closes; a server that keeps a connection open after
/// a whole answer, or says nothing, is left after a while.
const PROGRAM: &str = r"
const net = require('net');
const attempts = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const attempt = ({ socket, request, tunnelled }) => new Promise((resolve) => {
    let answer = '';
    const connection = net.connect(typeof socket === 'number' ? { port: socket, host: '127.0.0.1' } : { path: socket });
    const done = (text) => { connection.destroy(); resolve(text); };
    connection.on('error', (error) => done(answer || `error: ${error.code}`));
    connection.on('close', () => done(answer || 'closed'));
    connection.setTimeout(2000, () => done(answer || 'silent'));
    connection.on('data', (data) => {
        answer += data.toString('latin1');
        if (tunnelled && answer.startsWith('HTTP/1.1 200')) { connection.write(tunnelled); tunnelled = undefined; }
        if (answer.startsWith('HTTP/1.1 101')) done(answer);
    });
    connection.write(request);
});
Promise.all(attempts.map(attempt)).then((answers) => process.stdout.write(JSON.stringify(answers)));
";

/// The listening sockets of these processes: TCP ports, and Unix sockets by path, with a NUL first if the name is abstract.
fn listening(processes: &[u32]) -> (BTreeSet<u16>, BTreeSet<String>) {
    let mut inodes: BTreeMap<String, u32> = BTreeMap::new();
    for pid in processes {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for link in descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()) {
            let socket = link.to_str().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
            inodes.extend(socket.map(|inode| (inode.to_owned(), *pid)));
        }
    }
    let mut ports = BTreeSet::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            // The state of a listening socket is 0A.
            if fields[3] == "0A" && inodes.contains_key(fields[9]) {
                ports.insert(u16::from_str_radix(fields[1].rsplit_once(':').unwrap().1, 16).unwrap());
            }
        }
    }
    let mut paths = BTreeSet::new();
    for line in fs::read_to_string("/proc/net/unix").unwrap().lines().skip(1) {
        let fields: Vec<_> = line.split_whitespace().collect();
        // `__SO_ACCEPTCON` is set for a listening socket.
        if let [_, _, _, "00010000", _, _, inode, path] = fields[..]
            && let Some(pid) = inodes.get(inode)
        {
            // A relative path is relative to the working directory of the process.
            let folder = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
            let path = path
                .strip_prefix('@')
                .map_or_else(|| folder.join(path).to_str().unwrap().to_owned(), |name| format!("\0{name}"));
            paths.insert(path);
        }
    }
    (ports, paths)
}

/// Every way to drive a browser at a socket, by name. `victim` counts requests that come through a proxy.
fn attempts(socket: &Value, victim: &Site) -> Vec<(String, Value)> {
    let host = socket.as_u64().map_or_else(|| "localhost".to_owned(), |port| format!("127.0.0.1:{port}"));
    let request = |line: &str, headers: &str, body: &str| {
        let length = body.len();
        format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n{body}"
        )
    };
    let upgrade = |path: &str| {
        format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    let initialize = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "x", "version": "1" } },
    })
    .to_string();
    let mcp_headers = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
    let through = victim.url("/through-a-proxy");
    let authority = format!("127.0.0.1:{}", victim.port());
    let tunnelled =
        format!("GET /through-a-tunnel HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    let plain = |what: &str, request: String| {
        (format!("{what} at {socket}"), json!({ "socket": socket, "request": request }))
    };
    vec![
        plain("version", request("GET /json/version", "", "")),
        plain("list", request("GET /json/list", "", "")),
        plain("new tab", request("PUT /json/new?about:blank", "", "")),
        plain("WebSocket", upgrade("/")),
        plain("browser's WebSocket", upgrade("/devtools/browser")),
        plain("named WebSocket", upgrade("/devtools/browser/00000000-0000-0000-0000-000000000000")),
        plain("MCP", request("POST /mcp", mcp_headers, &initialize)),
        plain("MCP at the root", request("POST /", mcp_headers, &initialize)),
        plain("event stream", request("GET /sse", "Accept: text/event-stream\r\n", "")),
        plain("sessions", request("GET /control/sessions", "", "")),
        plain("raw CDP", "{\"id\":1,\"method\":\"Target.getTargets\"}\0".to_owned()),
        plain("proxy", format!("GET {through} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n")),
        (
            format!("tunnel at {socket}"),
            json!({
                "socket": socket,
                "request": format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n"),
                "tunnelled": tunnelled,
            }),
        ),
    ]
}

/// Runs these attempts as a program of this user; `None` is the test's own.
async fn run_as(user: Option<u32>, attempts: Vec<(String, Value)>) -> BTreeMap<String, String> {
    let (names, attempts): (Vec<_>, Vec<_>) = attempts.into_iter().unzip();
    let input = serde_json::to_vec(&attempts).unwrap();
    let output = tokio::task::spawn_blocking(move || {
        let mut program = Command::new("node");
        program.args(["-e", PROGRAM]).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        program.current_dir("/").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        if let Some(user) = user {
            program.uid(user).gid(user);
        }
        let mut program = program.spawn().unwrap();
        std::io::Write::write_all(&mut program.stdin.take().unwrap(), &input).unwrap();
        program.wait_with_output().unwrap().stdout
    });
    let answers: Vec<String> = serde_json::from_slice(&output.await.unwrap()).unwrap();
    names.into_iter().zip(answers).collect()
}

/// Whether an answer shows that its sender may go on to drive a browser.
fn drives(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 101")
        || ["webSocketDebuggerUrl", "devtoolsFrontendUrl", "serverInfo", "targetInfos", "\"sessions\""]
            .iter()
            .any(|sign| answer.contains(sign))
}

/// The ids of all pages of the playwright engine's browsers.
async fn pages(server: u32) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    for engine in inspect::engines(server) {
        let targets = inspect::call_browser_of(engine, "Target.getTargets").await;
        pages.extend(
            targets["targetInfos"].as_array().unwrap().iter().map(|page| page["targetId"].to_string()),
        );
    }
    pages
}

/// A program that knows no secret tries every listening socket of a server's process tree, while sessions of both engines
/// live. As greenroom's own user it can use the server's port and Unix sockets, which are meant for that user, and browse
/// through the egress proxy; no other port lets it drive a browser. As another user it gets nothing at all. Only root can
/// start a program as another user; without root the test shows the first half.
#[tokio::test]
async fn no_socket_serves_strangers() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let victim = Site::start().await;
    let pools = "[pools.PLAYWRIGHT]\ninstances = 1\nslots = 2\nisolated = true\nis_default = true\n\
                 [pools.DEVTOOLS]\ninstances = 1\nslots = 1\nisolated = true\nengine = \"devtools\"\n";
    let config = data.path().join("greenroom.toml");
    fs::write(&config, pools).unwrap();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--config"];
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(flags).arg(&config).arg("--data-dir");
    let server = Server::start(launch.arg(data.path())).await;
    let front = GatewayFixture::start(&data, &[]).await;
    front.navigate("a", &site.url("/title?t=one")).await.ok();
    let page =
        json!({ "url": site.url("/title?t=two"), "browser_pool": "DEVTOOLS", "type": "url", "pageId": 1 });
    front.call("b", "navigate_page", page).await.ok();

    let mut processes = children(server.pid());
    processes.push(server.pid());
    let (ports, paths) = listening(&processes);
    let server_port = server.address().port();
    // The CDP proxy and the egress proxy of each engine, and Node's port.
    assert!(ports.len() >= 6 && ports.contains(&server_port), "{ports:?}");
    let run = inspect::run_of(data.path(), server.pid());
    let control = run.join("control.sock").display().to_string();
    assert!(paths.iter().any(|path| path.ends_with("control.sock")), "{paths:?} {control}");
    assert!(
        paths.iter().all(|path| !path.starts_with('\0')),
        "abstract sockets have no permissions: {paths:?}"
    );
    assert!(
        ports.iter().all(|port| inspect::ports(&run).contains(port)),
        "every port is closed to browsers: {ports:?}"
    );

    let before = pages(server.pid()).await;
    assert!(!before.is_empty());
    let sockets = ports.iter().map(|port| json!(port)).chain(paths.iter().map(|path| json!(path)));
    let tried: Vec<_> = sockets.flat_map(|socket| attempts(&socket, &victim)).collect();
    let answers = run_as(None, tried.clone()).await;
    let meant = |name: &str| name.ends_with(&format!(" {server_port}")) || name.contains('/');
    let driving: Vec<_> = answers.iter().filter(|(_, answer)| drives(answer)).collect();
    assert!(driving.iter().all(|(name, _)| meant(name)), "{driving:?}");
    assert!(
        driving.iter().any(|(name, _)| **name == format!("MCP at {server_port}")),
        "the program can tell when it is served: {answers:?}"
    );
    assert_eq!(pages(server.pid()).await, before, "a program has opened or closed a page");
    let hits = victim.requests().len();
    assert!(hits > 0, "the program can tell a proxy");

    if rustix::process::geteuid().is_root() {
        let answers = run_as(Some(NOBODY), tried).await;
        for (name, answer) in &answers {
            let is_refused =
                ["error: ", "closed", "HTTP/1.1 403", "HTTP/1.1 404", "HTTP/1.1 401", "HTTP/1.1 400"]
                    .iter()
                    .any(|refusal| answer.starts_with(refusal));
            assert!(is_refused && !drives(answer), "{name}: {answer}");
            let is_own_port = name.ends_with(&format!(" {server_port}"));
            assert!(!is_own_port || answer.contains("server.allow_other_users"), "{name}: {answer}");
            assert!(!name.contains('/') || answer.starts_with("error: EACCES"), "{name}: {answer}");
        }
        assert_eq!(victim.requests().len(), hits, "another user has got through a proxy");
        assert_eq!(pages(server.pid()).await, before);
    }
    front.end().await;
    assert!(server.stop().await.success());
}

/// With `server.allow_other_users` a program of another user uses the server, and the other sockets stay closed to it.
#[tokio::test]
async fn other_users_use_the_server_if_allowed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let data = DataFolder::new();
    let victim = Site::start().await;
    let flags = ["serve", "--listen", "127.0.0.1:0", "--server-allow-other-users", "--data-dir"];
    let server =
        Server::start(Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(flags).arg(data.path())).await;
    let port = json!(server.address().port());
    let answers = run_as(Some(NOBODY), attempts(&port, &victim)).await;
    assert!(answers[&format!("MCP at {port}")].contains("serverInfo"), "{answers:?}");
    assert!(server.stop().await.success());
}
