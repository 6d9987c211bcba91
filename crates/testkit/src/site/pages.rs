//! The pages of the test site: what each address answers. Markup is in `html/`; [`fill`] inserts values of the request,
//! escaped. Pages load nothing from elsewhere.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Form, Router,
    body::{Body, Bytes},
    extract::Query,
    http::{HeaderMap, StatusCode, header},
    middleware::from_fn_with_state,
    response::{AppendHeaders, Html, IntoResponse, Redirect, Response},
    routing::get,
};
use futures_util::{StreamExt, stream};
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::watch;

use super::request_log::{RecordedRequest, record};

type QueryParameters = Query<HashMap<String, String>>;

/// All pages. Each request is recorded first.
pub(super) fn router(seen: watch::Sender<Vec<RecordedRequest>>) -> Router {
    let served = Arc::new(AtomicU64::new(0));
    let present = Arc::new(watch::Sender::new(0));
    let mut router = Router::new();
    for (path, html) in [
        ("/", include_str!("html/index.html")),
        ("/dialog", include_str!("html/dialog.html")),
        ("/upload", include_str!("html/upload.html")),
        ("/console", include_str!("html/console.html")),
        ("/popup", include_str!("html/popup.html")),
        ("/attack", include_str!("html/attack.html")),
        ("/imitation", include_str!("html/imitation.html")),
        ("/late", include_str!("html/late.html")),
        ("/menu", include_str!("html/menu.html")),
        ("/shop", include_str!("html/shop.html")),
        ("/sw", include_str!("html/sw.html")),
    ] {
        router = router.route(path, get(Html(html)));
    }
    router
        .route("/canary", get(canary))
        .route("/show", get(show))
        .route("/form", get(Html(include_str!("html/form.html"))).post(submitted))
        .route("/shop/order", get(order))
        .route("/table", get(table))
        .route("/title", get(title))
        .route("/html", get(html))
        .route("/big", get(big))
        .route("/download", get(download))
        .route("/redirect", get(redirect))
        .route("/slow", get(slow))
        .route("/never", get(never))
        .route("/meet", get(move |asked, headers| meet(asked, headers, Arc::clone(&present))))
        .route("/cache", get(move || cached(Arc::clone(&served))))
        .route("/sw.js", get(worker))
        .route("/script", get(script))
        .fallback(|| async {
            (StatusCode::NOT_FOUND, Html("<!doctype html><title>not found</title>not found"))
        })
        .layer(from_fn_with_state(seen, record))
}

/// Sets a cookie that scripts see and one that they do not; the page's script sets every kind of storage.
async fn canary(Query(asked): QueryParameters) -> Response {
    let name = text(&asked, "name", "");
    let cookies = [format!("canary={name}; Path=/"), format!("canary_http={name}; Path=/; HttpOnly")];
    let cookies = AppendHeaders(cookies.map(|cookie| (header::SET_COOKIE, cookie)));
    (cookies, Html(fill(include_str!("html/canary.html"), &[("name", name)]))).into_response()
}

async fn show(headers: HeaderMap) -> Response {
    let cookie = headers.get(header::COOKIE).and_then(|value| value.to_str().ok()).unwrap_or("");
    uncached(fill(include_str!("html/show.html"), &[("cookie", cookie)]))
}

async fn submitted(Form(fields): Form<Vec<(String, String)>>) -> Html<String> {
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Html(fill(include_str!("html/submitted.html"), &[("fields", &lines.join("\n"))]))
}

/// An order as the shop places it. The query holds the order, so that it is among the recorded requests.
async fn order(Query(fields): Query<Vec<(String, String)>>) -> Response {
    let all = |wanted: &str| {
        let values = fields.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        values.collect::<Vec<_>>().join(", ")
    };
    let name = all("name");
    let items = all("item");
    let total = all("total");
    if name.is_empty() || items.is_empty() {
        return (StatusCode::BAD_REQUEST, "not an order").into_response();
    }
    let values = [("name", name.as_str()), ("items", &items), ("total", &total)];
    Html(fill(include_str!("html/order.html"), &values)).into_response()
}

async fn table(Query(asked): QueryParameters) -> Html<String> {
    let rows: String = (1..=number(&asked, "rows", 10))
        .map(|row| {
            format!("<tr><td>{row}</td><td>name {row}</td><td><button>open {row}</button></td></tr>\n")
        })
        .collect();
    // `below=1` adds controls below the rows.
    let below = match number(&asked, "below", 0) {
        0 => "",
        _ => "<button onclick=\"this.textContent = 'ordered'\">Order</button>",
    };
    Html(format!(
        "<!doctype html><title>table</title>\n<table>\n<tr><th>number</th><th>name</th><th>action</th></tr>\n{rows}</table>\n{below}"
    ))
}

async fn title(Query(asked): QueryParameters) -> Html<String> {
    let template = "<!doctype html><title>{{title}}</title><h1>{{title}}</h1>";
    Html(fill(template, &[("title", text(&asked, "t", "untitled"))]))
}

/// The HTML that the request asks for, scripts included.
async fn html(Query(asked): QueryParameters) -> Html<String> {
    Html(text(&asked, "html", "").to_owned())
}

async fn big(Query(asked): QueryParameters) -> Html<String> {
    let bytes = usize::try_from(number(&asked, "bytes", 1_000)).unwrap_or(usize::MAX);
    let head = "<!doctype html><title>big</title><p>";
    // Lines of 100 bytes, as in usual text; the rest fills the last one.
    let line = format!("{}\n", "x".repeat(99));
    let mut page = String::with_capacity(bytes);
    page.push_str(head);
    while page.len() + line.len() <= bytes {
        page.push_str(&line);
    }
    page.push_str(&"x".repeat(bytes.saturating_sub(page.len())));
    Html(page)
}

/// A file, after `ms` milliseconds. With `endless`, 256 KiB of it every 20 ms, for as long as the client reads.
async fn download(Query(asked): QueryParameters) -> Response {
    tokio::time::sleep(Duration::from_millis(number(&asked, "ms", 0))).await;
    let name = text(&asked, "name", "report.txt").replace('"', "");
    let attachment = format!("attachment; filename=\"{name}\"");
    let kind = text(&asked, "kind", "text/plain").to_owned();
    let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, attachment)];
    if asked.contains_key("endless") {
        let parts = stream::repeat(Bytes::from_static(&[0; 1 << 18])).then(async |part| {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, std::convert::Infallible>(part)
        });
        return (headers, Body::from_stream(parts)).into_response();
    }
    (headers, "greenroom download\n").into_response()
}

async fn redirect(Query(asked): QueryParameters) -> Redirect {
    Redirect::temporary(text(&asked, "to", "/"))
}

async fn slow(Query(asked): QueryParameters) -> Response {
    tokio::time::sleep(Duration::from_millis(number(&asked, "ms", 1_000))).await;
    uncached("<!doctype html><title>slow</title><h1 id=state>changed</h1>".to_owned())
}

async fn never() -> Response {
    let head = Bytes::from_static(b"<!doctype html><title>never</title><h1>more will never come</h1>");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], Body::new(Endless(Some(head)))).into_response()
}

/// Answers when `count` requests have come since the start: the first ones wait for the others. Shows the cookies.
async fn meet(asked: QueryParameters, headers: HeaderMap, present: Arc<watch::Sender<u64>>) -> Response {
    present.send_modify(|count| *count += 1);
    let count = number(&asked, "count", 1);
    let _ = present.subscribe().wait_for(|present| *present >= count).await;
    show(headers).await
}

/// Shows how often it was served: a browser that shows an old number has it from a cache.
async fn cached(served: Arc<AtomicU64>) -> Response {
    let count = served.fetch_add(1, Ordering::Relaxed) + 1;
    let page = format!("<!doctype html><title>cache</title><p id=served>served {count}</p>");
    ([(header::CACHE_CONTROL, "public, max-age=3600")], Html(page)).into_response()
}

async fn worker() -> Response {
    ([(header::CONTENT_TYPE, "text/javascript")], include_str!("html/sw.js")).into_response()
}

/// The script of a worker: `/script?code=…` answers the code in its query.
async fn script(Query(asked): QueryParameters) -> Response {
    let code = asked.get("code").cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/javascript")], code).into_response()
}

/// A body that sends its first bytes and then neither goes on nor ends.
struct Endless(Option<Bytes>);

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.0.take() {
            Some(head) => Poll::Ready(Some(Ok(Frame::data(head)))),
            None => Poll::Pending,
        }
    }
}

fn uncached(page: String) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Html(page)).into_response()
}

fn text<'a>(asked: &'a HashMap<String, String>, name: &str, otherwise: &'a str) -> &'a str {
    asked.get(name).map_or(otherwise, String::as_str)
}

fn number(asked: &HashMap<String, String>, name: &str, otherwise: u64) -> u64 {
    asked.get(name).and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Replaces each `{{name}}` by its value, escaped for HTML text and attributes.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    values.iter().fold(template.to_owned(), |page, (name, value)| {
        let escaped =
            value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        page.replace(&format!("{{{{{name}}}}}"), &escaped)
    })
}
