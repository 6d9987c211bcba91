//! The test site over plain HTTP: each page answers what its tests rely on.

use greenroom_testkit::{Site, TEST_TIMEOUT, within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// One request; the whole answer, headers and body, as text.
async fn ask(site: &Site, request_line: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", site.port())).await.unwrap();
    let request = format!("{request_line} HTTP/1.1\r\nHost: site\r\nConnection: close\r\n{more}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    within(TEST_TIMEOUT, stream.read_to_end(&mut answer)).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn get(site: &Site, path: &str) -> String {
    ask(site, &format!("GET {path}"), "\r\n").await
}

/// Every page answers 200 with its characteristic words.
#[tokio::test]
async fn every_page_answers_with_its_words() {
    let site = Site::start().await;
    for (path, words) in [
        ("/", "greenroom test site"),
        ("/show", "server saw: "),
        ("/form", "<textarea"),
        ("/table?rows=3", "name 3<"),
        ("/dialog", "alert("),
        ("/download", "greenroom download"),
        ("/upload", "type=\"file\""),
        ("/console", "console.warn"),
        ("/slow?ms=1", "changed"),
        ("/popup", "window.open"),
        ("/attack?port=1", "2130706433"),
        ("/late?ms=1&by=fetch", "navigation"),
        ("/title?t=a%3Cb", "<title>a&lt;b</title>"),
        ("/shop", "role=tablist"),
        (
            "/shop/order?name=Ada&item=2+x+Bag+5&item=1+x+Rake+3&total=9.50",
            "ordered 2 x Bag 5, 1 x Rake 3 for 9.50",
        ),
        ("/sw", "serviceWorker"),
        ("/sw.js", "skipWaiting"),
    ] {
        let answer = get(&site, path).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(words), "{path}: {answer}");
    }
    assert_eq!(get(&site, "/table?rows=50").await.matches("<tr><td>").count(), 50);
    assert_eq!(get(&site, "/big?bytes=12345").await.split_once("\r\n\r\n").unwrap().1.len(), 12_345);
    assert!(get(&site, "/download").await.contains("attachment; filename=\"report.txt\""));
}

/// The canary sets one cookie that scripts see and one that they do not, and the server sees what comes back.
#[tokio::test]
async fn the_canary_sets_both_kinds_of_cookie() {
    let site = Site::start().await;
    let answer = get(&site, "/canary?name=blue").await;
    assert!(answer.contains("set-cookie: canary=blue; Path=/\r\n"), "{answer}");
    assert!(answer.contains("set-cookie: canary_http=blue; Path=/; HttpOnly\r\n"), "{answer}");
    assert!(answer.contains("<title>canary blue</title>"));
    let shown = ask(&site, "GET /show", "Cookie: canary=blue\r\n\r\n").await;
    assert!(shown.contains("server saw: canary=blue<"));
    assert_eq!(site.requests()[1].cookie.as_deref(), Some("canary=blue"));
}

/// A submitted form is shown, a redirect points where the request says, the cacheable page counts.
#[tokio::test]
async fn pages_depend_on_the_request() {
    let site = Site::start().await;
    let form =
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 17\r\n\r\nname=a+b&agree=ye";
    let shown = ask(&site, "POST /form", form).await;
    assert!(shown.contains("name=a b\nagree=ye"), "{shown}");
    assert!(
        get(&site, "/redirect?to=http%3A%2F%2Fexample.org%2F")
            .await
            .contains("location: http://example.org/")
    );
    assert!(get(&site, "/cache").await.contains("served 1"));
    let again = get(&site, "/cache").await;
    assert!(again.contains("served 2") && again.contains("cache-control: public, max-age=3600"));
}

/// Requests are counted on arrival, unknown paths too, and waiting for one ends when it comes.
#[tokio::test]
async fn hits_are_counted() {
    let site = Site::start().await;
    assert_eq!(site.hits("/json/version"), 0);
    let (answer, ()) = tokio::join!(get(&site, "/json/version?x=1"), site.wait_for_hit("/json/version"));
    assert!(answer.starts_with("HTTP/1.1 404"));
    get(&site, "/json/version").await;
    site.wait_for_hits("/json/version", 2).await;
    assert_eq!(site.hits("/json/version"), 2);
    assert_eq!(site.requests()[0].query.as_deref(), Some("x=1"));
}

/// `/never` sends its head and goes on for ever, until the site is dropped.
#[tokio::test]
async fn endless_page_ends_with_the_site() {
    let site = Site::start().await;
    let mut stream = TcpStream::connect(("127.0.0.1", site.port())).await.unwrap();
    stream.write_all(b"GET /never HTTP/1.1\r\nHost: site\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("never come") {
        assert_ne!(within(TEST_TIMEOUT, stream.read_buf(&mut seen)).await.unwrap(), 0);
    }
    drop(site);
    // The site's end is an end of file or a reset here.
    let _ = within(TEST_TIMEOUT, stream.read_to_end(&mut seen)).await;
}

/// Requests that wait for others are answered when all of them are there, and not before.
#[tokio::test]
async fn requests_wait_until_all_have_arrived() {
    let site = Site::start().await;
    let first = get(&site, "/meet?count=2");
    tokio::select! {
        answer = first => panic!("answered alone: {answer}"),
        () = site.wait_for_hit("/meet") => {}
    }
    let answers = tokio::join!(get(&site, "/meet?count=3"), get(&site, "/meet?count=3"));
    assert!(answers.0.contains("server saw: ") && answers.1.contains("server saw: "), "{answers:?}");
}
