//! Files pass between an agent's workspace and its session, and to no other place.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use greenroom_testkit::{Site, case, http::HttpMcpClient};
use serde_json::{Value, json};

use super::{
    command_line::serve,
    fixture::{DataFolder, GatewayFixture, REVISION, ToolAnswer, all, launch},
    inspect,
};

/// Uploads and named results stay within the workspace. greenroom's own data folder is a part of it, as when an agent
/// works in its home folder.
#[tokio::test]
async fn files_stay_within_the_workspace() {
    let workspace = tempfile::tempdir().unwrap();
    let folder = workspace.path();
    let data = DataFolder::in_folder(workspace.path());
    let site = Site::start().await;
    let gateway = GatewayFixture::spawn(launch(data.path(), &[]).cwd(folder)).await;
    let uploads = only_workspace_files_are_uploaded(&gateway, &site, &data, folder);
    case("only_workspace_files_are_uploaded", uploads).await;
    let results = named_results_arrive_in_the_workspace(&gateway, &site, &data, folder);
    case("named_results_arrive_in_the_workspace", results).await;
    gateway.end().await;
}

/// Uploads are taken from the workspace only: not from other sessions, not from the system, not through links.
async fn only_workspace_files_are_uploaded(
    gateway: &GatewayFixture,
    site: &Site,
    data: &DataFolder,
    workspace: &Path,
) {
    let upload = Upload { gateway, site };

    std::fs::write(workspace.join("mine.txt"), "my words").unwrap();
    std::fs::create_dir(workspace.join("deep")).unwrap();
    symlink("../mine.txt", workspace.join("deep/link.txt")).unwrap();
    symlink("/etc/passwd", workspace.join("passwd.txt")).unwrap();
    symlink("/etc", workspace.join("etc")).unwrap();
    fifo(&workspace.join("fifo"));
    let absolute = workspace.join("mine.txt");
    for allowed in ["mine.txt", "./mine.txt", "deep/../mine.txt", "deep/link.txt", absolute.to_str().unwrap()]
    {
        assert!(upload.takes(allowed).await.contains("my words"), "{allowed}");
    }
    let download = download(gateway, site, "other").await;
    let snapshot = keep_snapshot(gateway, data.path(), "other").await;
    let engine = data.path().join("engines").read_dir().unwrap().next().unwrap().unwrap().path();
    let lock = inspect::run_of(data.path(), gateway.client.pid()).join("lock");
    for (path, why) in [
        (Path::new("/etc/passwd"), "outside your workspace"),
        (Path::new("../../../../../../etc/passwd"), "outside your workspace"),
        (Path::new("passwd.txt"), "outside your workspace"),
        (Path::new("etc/passwd"), "outside your workspace"),
        (&download, "belongs to greenroom"),
        (&snapshot, "belongs to greenroom"),
        (&lock, "belongs to greenroom"),
        (&engine, "outside your workspace"),
        (Path::new("deep"), "not a regular file"),
        // A FIFO without a writer: reading it would block for ever.
        (Path::new("fifo"), "not a regular file"),
        (Path::new("nul\0.txt"), "no file can have this name"),
        (Path::new("nothing.txt"), "cannot read the file"),
    ] {
        let path = path.to_str().unwrap();
        let refusal = upload.refuses(path).await;
        assert!(
            refusal.contains(why) && refusal.contains(path.trim_start_matches("nul\0")),
            "`{path}` is not refused by name: {refusal}"
        );
    }
}

/// An agent on another machine has no folder here. It hands the browser a file that a program uploaded, and gets a named
/// result as a blob of that name; a blob that is not its owner's, or is none, is refused.
#[tokio::test]
async fn an_agent_without_a_folder_uses_blobs() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve(&data).await;
    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let call = async |tool: &str, arguments: Value| ToolAnswer::new(client.call(tool, arguments).await);
    let put = server.connection().await.request("PUT", "/api/blobs?name=cv.txt", &[], Some("my words"));
    let uploaded = put.await.json().await;

    let session = json!({"sessionId": "a"});
    let with = |more: Value| {
        let mut arguments = session.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    call("browser_navigate", with(json!({"url": site.url("/upload")}))).await.ok();
    call("browser_click", with(json!({"target": "#file"}))).await.ok();
    let unknown = format!("greenroom://blobs/{}", "0".repeat(64));
    for (path, why) in [
        (&*unknown, "no such blob"),
        ("greenroom://blobs/../../etc/passwd", "no such blob"),
        ("/etc/passwd", "outside your workspace"),
    ] {
        let refused = call("browser_file_upload", with(json!({"paths": [path]}))).await.failed();
        assert!(refused.contains(why) && refused.contains(path), "{refused}");
    }
    call("browser_file_upload", with(json!({"paths": [uploaded["uri"]]}))).await.ok();
    let read = "async () => { const [file] = document.getElementById('file').files; \
                return file.name + ': ' + await file.text(); }";
    let page = call("browser_evaluate", with(json!({"function": read}))).await.ok();
    assert!(page.contains("cv.txt: my words"), "{page}");

    let shot = call("browser_take_screenshot", with(json!({"filename": "shots/page.png"}))).await.ok();
    assert!(shot.contains("page.png: greenroom://blobs/"), "{shot}");
    let blobs = server.get("/api/blobs").await.json().await;
    assert_eq!(blobs["blobs"][0]["name"], "page.png", "{blobs}");
}

/// All of a client's roots are its workspace, and greenroom asks again when the client changes them.
#[tokio::test]
async fn client_roots_are_its_workspace() {
    let first = folder("first");
    let second = folder("second");
    let cwd = folder("cwd");
    let data = DataFolder::new();
    let site = Site::start().await;
    let client = launch(data.path(), &[]).cwd(cwd.path()).spawn();
    let uri = |folder: &tempfile::TempDir| json!({ "uri": format!("file://{}", folder.path().display()) });
    let roots = json!({ "roots": [uri(&first), uri(&second)] });
    client.on_request("roots/list", move |_| roots.clone());
    client.initialize(REVISION, json!({ "roots": { "listChanged": true } })).await;
    let gateway = GatewayFixture { client };
    let upload = Upload { gateway: &gateway, site: &site };

    assert!(upload.takes("first.txt").await.contains("words of first"));
    let in_second = second.path().join("second.txt");
    assert!(upload.takes(in_second.to_str().unwrap()).await.contains("words of second"));
    let in_cwd = cwd.path().join("cwd.txt");
    assert!(upload.refuses(in_cwd.to_str().unwrap()).await.contains("outside your workspace"));

    let roots = json!({ "roots": [uri(&cwd)] });
    gateway.client.on_request("roots/list", move |_| roots.clone());
    gateway.client.notify("notifications/roots/list_changed", json!({})).await;
    assert!(upload.takes("cwd.txt").await.contains("words of cwd"));
    assert!(upload.refuses(in_second.to_str().unwrap()).await.contains("outside your workspace"));
    gateway.end().await;
}

/// Results with a file name arrive in the workspace under that name, and nowhere else.
async fn named_results_arrive_in_the_workspace(
    gateway: &GatewayFixture,
    site: &Site,
    data: &DataFolder,
    workspace: &Path,
) {
    let outside = tempfile::tempdir().unwrap();
    gateway.navigate("", &site.url("/title?t=kept%20words")).await.ok();

    let absolute = workspace.join("abs/b.yml").display().to_string();
    for name in ["a.yml", "deep/er/a.yml", "./c.yml", "deep/../d.yml", &absolute] {
        let answer = gateway.call("", "browser_snapshot", json!({ "filename": name })).await.ok();
        let written = std::fs::read_to_string(workspace.join(name)).unwrap();
        assert!(written.contains("heading \"kept words\""), "{name}: {written}");
        assert!(answer.contains(name.trim_start_matches("./")), "the answer does not name it: {answer}");
    }
    let absolute = workspace.join("shots/b.png").display().to_string();
    for name in ["a.png", "deep/er/a.png", &absolute] {
        let arguments = json!({ "type": "png", "filename": name });
        gateway.call("", "browser_take_screenshot", arguments).await.ok();
        let written = std::fs::read(workspace.join(name)).unwrap();
        assert!(written.starts_with(b"\x89PNG"), "{name} is no picture");
    }

    symlink(outside.path(), workspace.join("out")).unwrap();
    std::fs::write(outside.path().join("target.yml"), "untouched").unwrap();
    symlink(outside.path().join("target.yml"), workspace.join("link.yml")).unwrap();
    let foreign = outside.path().join("x.yml").display().to_string();
    let ours = data.path().join("engines-x.yml").display().to_string();
    for name in ["../x.yml", "deep/../../x.yml", "out/x.yml", "link.yml", &foreign, &ours] {
        let refusal = gateway.call("", "browser_snapshot", json!({ "filename": name })).await.failed();
        let why = refusal.contains("outside your workspace") || refusal.contains("belongs to greenroom");
        assert!(why && refusal.contains(name), "`{name}` is not refused by name: {refusal}");
    }
    // No process reads the FIFO, so that a writer would block for ever.
    fifo(&workspace.join("unread"));
    for name in ["unread", "unread/x.yml"] {
        gateway.call("", "browser_snapshot", json!({ "filename": name })).await.failed();
    }
    gateway.navigate("", &site.url("/title?t=goes%20on")).await.ok();
    assert_eq!(outside.path().read_dir().unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.path().join("target.yml")).unwrap(), "untouched");
    assert!(!Path::new(&ours).exists());
}

/// No address shows files of the machine: not `file:`, not behind `view-source:`, not by redirect or script. Addresses of
/// other schemes than the web's are refused by their scheme, whatever they lead to.
pub async fn local_files_cannot_be_visited(gateway: &GatewayFixture, site: &Site) {
    for url in [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        " file:///etc/passwd",
        "view-source:file:///etc/passwd",
        "View-Source: file:///etc/passwd",
        "view-source:fi\tle:///etc/passwd",
        "view-source:view-source:file:///etc/passwd",
        &format!("view-source:{}", site.url("/title?t=plain")),
        "chrome://version",
        "devtools://devtools/bundled/inspector.html",
        "about:version",
        "javascript:alert(1)",
    ] {
        let refusal = gateway.navigate("", url).await.failed();
        assert!(refusal.contains("addresses here, only pages of the web"), "{url}: {refusal}");
        let arguments = json!({ "action": "new", "url": url });
        gateway.call("", "browser_tabs", arguments).await.failed();
    }
    // Each in a session of its own, all at once: the engine waits a while for a navigation that never comes.
    let ways = [
        "location.href = 'file:///etc/passwd'",
        "location.href = 'view-source:file:///etc/passwd'",
        "location.href = '/redirect?to=file:///etc/passwd'",
        "location.href = '/redirect?to=view-source:file:///etc/passwd'",
        "window.open('file:///etc/passwd')",
        "window.open('view-source:file:///etc/passwd')",
    ];
    all(ways.into_iter().enumerate().map(|(n, way)| async move {
        let session = n.to_string();
        gateway.navigate(&session, &site.url("/title?t=open%20page")).await.ok();
        // The browser answers some of these with an error, some with nothing.
        let tried = gateway.evaluate(&session, &format!("() => {{ {way}; }}")).await;
        let shown = gateway.call(&session, "browser_snapshot", json!({})).await;
        let text = tried.text() + &shown.text();
        assert!(!text.contains("root:x:0"), "{way}: {text}");
    }))
    .await;
}

fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

/// Uploads each file to the site's page in a session of its own.
struct Upload<'a> {
    gateway: &'a GatewayFixture,
    site: &'a Site,
}

impl Upload<'_> {
    /// What the page read from the file.
    async fn takes(&self, path: &str) -> String {
        self.choose().await;
        self.gateway.call("", "browser_file_upload", json!({ "paths": [path] })).await.ok();
        let read =
            "async () => { const [file] = document.getElementById('file').files; return await file.text(); }";
        self.gateway.evaluate("", read).await.ok()
    }

    /// Why the file is refused. The page has received nothing.
    async fn refuses(&self, path: &str) -> String {
        self.choose().await;
        let refusal = self.gateway.call("", "browser_file_upload", json!({ "paths": [path] })).await.failed();
        // The file chooser is still open, which shows that the engine did not get the call.
        self.gateway.call("", "browser_file_upload", json!({})).await.ok();
        let count =
            self.gateway.evaluate("", "() => document.getElementById('file').files.length").await.ok();
        assert!(count.contains("### Result\n0"), "the page got a file: {count}");
        refusal
    }

    async fn choose(&self) {
        self.gateway.navigate("", &self.site.url("/upload")).await.ok();
        self.gateway.call("", "browser_click", json!({ "target": "#file" })).await.ok();
    }
}

fn folder(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(format!("{name}.txt")), format!("words of {name}")).unwrap();
    folder
}

/// Makes a session download a file, and returns where it is.
async fn download(gateway: &GatewayFixture, site: &Site, session: &str) -> PathBuf {
    gateway.navigate(session, &site.url("/")).await.ok();
    let mut text =
        gateway.call(session, "browser_click", json!({ "target": "a[href='/download']" })).await.ok();
    while !text.contains("Downloaded file") {
        text = gateway.evaluate(session, "() => 0").await.ok();
    }
    let path = text.split("Downloaded file report.txt to \"").nth(1).unwrap().split('"').next().unwrap();
    PathBuf::from(path)
}

/// Makes a session's engine write a snapshot into the session's folder, and returns where it is.
async fn keep_snapshot(gateway: &GatewayFixture, data: &Path, session: &str) -> PathBuf {
    gateway.call(session, "browser_take_screenshot", json!({ "type": "png" })).await.ok();
    let seats = inspect::run_of(data, gateway.client.pid()).join("seats");
    let folders = seats.read_dir().unwrap().flatten().map(|seat| seat.path().join(".playwright-mcp"));
    let files = folders.filter_map(|folder| folder.read_dir().ok()).flat_map(Iterator::flatten);
    let is_picture = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "png");
    files.map(|file| file.path()).find(is_picture).expect("the screenshot is kept in the session's folder")
}
