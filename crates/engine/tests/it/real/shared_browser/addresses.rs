//! Local files and the browser's own pages are out of reach, even for calls that get past the checks of tool arguments.

use std::fs;

use serde_json::json;

use super::{BROWSERS, BrowserKind, SharedBrowser, text};

const SECRET: &str = "correct horse battery staple";

/// Code that runs in the engine can name any address; the proxy lets only pages of the web pass.
#[tokio::test]
async fn engines_open_pages_of_the_web_only() {
    for kind in BROWSERS {
        let browser =
            SharedBrowser::start_with(kind, |options| options.settings_mut().tools.r#unsafe = true).await;
        let mut seat = browser.seat().await;
        let file = browser.data.path().join("secret.txt");
        fs::write(&file, SECRET).unwrap();
        for address in [
            format!("file://{}", file.display()),
            format!("view-source:file://{}", file.display()),
            format!("view-source:{}", browser.site.url("/title?t=web")),
            "chrome://version".to_owned(),
            "about:version".to_owned(),
            "devtools://devtools/bundled/inspector.html".to_owned(),
        ] {
            let code =
                format!("async (page) => {{ await page.goto({}); return page.content(); }}", json!(address));
            let reply = seat.reply("browser_run_code_unsafe", json!({ "code": code })).await;
            let answer = text(&reply);
            assert!(reply.is_failure() && !answer.contains(SECRET), "{kind:?} {address}: {answer}");
            let is_refused_by_proxy = answer.contains("no page may be opened at");
            // The engine itself refuses some of them.
            assert!(
                is_refused_by_proxy || answer.contains("Navigating to") || answer.contains("file:"),
                "{kind:?} {address}: {answer}"
            );
        }
        // The seat still opens pages of the web.
        let web = json!({ "url": browser.site.url("/title?t=web") });
        assert!(seat.call("browser_navigate", web).await.contains("web"));
        seat.seat.close().await;
        browser.end().await;
    }
}

/// A page cannot navigate itself to any of these addresses, nor a window or a frame that it opens.
pub async fn pages_cannot_open_refused_addresses(kind: BrowserKind, browser: &SharedBrowser) {
    let mut seat = browser.seat().await;
    let file = browser.data.path().join("secret.txt");
    fs::write(&file, SECRET).unwrap();
    seat.call("browser_navigate", json!({ "url": browser.site.url("/title?t=web") })).await;
    for scheme in ["file://", "view-source:file://", "filesystem:file://", "chrome://version/"] {
        let url = json!(format!("{scheme}{}", file.display()));
        for way in [
            "document.body.append(Object.assign(document.createElement('iframe'), { src: URL }))",
            "Object.assign(document.createElement('a'), { href: URL }).click()",
            "window.open(URL)",
            "location.href = URL",
            "fetch(URL).catch(() => 0)",
        ] {
            let way = way.replace("URL", &url.to_string());
            seat.evaluate(&format!("async () => {{ try {{ await ({way}) }} catch {{}} }}")).await;
        }
        let tabs = seat.call("browser_tabs", json!({ "action": "list" })).await;
        assert!(tabs.contains("/title?t=web") && !tabs.contains("secret.txt"), "{kind:?} {url}: {tabs}");
        // A frame that shows another origin's document has none that this page can read.
        let shown = "() => [document, ...[...document.querySelectorAll('iframe')].map((frame) => frame.contentDocument)]
            .map((one) => one?.documentElement.innerText ?? '').join()";
        let shown = seat.evaluate(shown).await.to_string();
        assert!(!shown.contains(SECRET), "{kind:?} {url}: {shown}");
    }
    seat.seat.close().await;
}
