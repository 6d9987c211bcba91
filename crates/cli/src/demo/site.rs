//! The demo's tea shop: an ordinary web site on loopback that knows its customers by a cookie, and stores nothing itself.
//!
//! Any program can reach its port while the demo runs, so all input is shown as text.

use axum::{
    Form, Router,
    http::{HeaderMap, header},
    response::{AppendHeaders, Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde::Deserialize;

use super::catalog::{BISCUITS, TEAS, gift};

/// The cookie that says who is signed in.
const COOKIE: &str = "customer";

/// The longest name of a customer. Longer ones are cut, to keep the cookie small.
const NAME_CHARS_MAX: usize = 40;

pub fn router() -> Router {
    Router::new()
        .route("/", get(shop))
        .route("/sign-in", post(sign_in))
        .route("/prices", get(prices))
        .route("/gift", get(gift_form).post(send_gift))
}

async fn shop(headers: HeaderMap) -> Html<String> {
    let wares = TEAS.iter().map(|(tea, _)| *tea).chain([BISCUITS]);
    let wares: Vec<_> = wares
        .map(|ware| {
            format!(r#"<li><button type="button" onclick="take('{ware}')">Take {ware}</button></li>"#)
        })
        .collect();
    page("Tea shop", &headers, &include_str!("html/shop.html").replace("{{wares}}", &wares.join("\n")))
}

#[derive(Deserialize)]
struct SignIn {
    name: String,
}

/// Sets the cookie. It is HttpOnly, as a real shop's would be: no script of the page can read it.
async fn sign_in(Form(SignIn { name }): Form<SignIn>) -> Response {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(NAME_CHARS_MAX).collect();
    let cookie = format!("{COOKIE}={name}; Path=/; HttpOnly; SameSite=Lax");
    (AppendHeaders([(header::SET_COOKIE, cookie)]), Redirect::to("/")).into_response()
}

async fn prices(headers: HeaderMap) -> Html<String> {
    let row = |(tea, cents): &(&str, u32)| {
        format!("<tr><td>{tea}</td><td>{}.{:02}</td></tr>", cents / 100, cents % 100)
    };
    let rows: Vec<_> = TEAS.iter().map(row).collect();
    page("Prices", &headers, &format!("<table>\n{}\n</table>", rows.join("\n")))
}

async fn gift_form(headers: HeaderMap) -> Html<String> {
    page("Send a gift", &headers, include_str!("html/gift.html"))
}

#[derive(Deserialize)]
struct Gift {
    r#for: String,
    tea: String,
    wrapped: Option<String>,
}

async fn send_gift(headers: HeaderMap, Form(sent): Form<Gift>) -> Html<String> {
    let thing = escape(&gift(&sent.tea, &sent.r#for, sent.wrapped.is_some()));
    let body = format!(
        r#"<p id="gift" data-thing="{thing}">On its way</p><script>take(document.getElementById("gift").dataset.thing)</script>"#
    );
    page("Thank you", &headers, &body)
}

fn page(title: &str, headers: &HeaderMap, body: &str) -> Html<String> {
    let filled = include_str!("html/page.html")
        .replace("{{title}}", title)
        .replace("{{who}}", &escape(customer(headers).unwrap_or("nobody")));
    Html(filled.replace("{{body}}", body))
}

fn customer(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    cookies.split("; ").find_map(|cookie| cookie.strip_prefix(COOKIE)?.strip_prefix('='))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(cookie: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        headers
    }

    /// A customer is known by the shop's own cookie, and by no other whose name is similar.
    #[test]
    fn customer_is_read_from_the_shop_cookie() {
        assert_eq!(customer(&HeaderMap::new()), None);
        assert_eq!(customer(&headers("customer=Ada")), Some("Ada"));
        assert_eq!(customer(&headers("a=b; customer=Ada; c=d")), Some("Ada"));
        assert_eq!(customer(&headers("customers=Ada; old-customer=Ben")), None);
    }

    /// Input is shown as text, never run.
    #[tokio::test]
    async fn input_is_escaped_in_pages() {
        let Html(text) = shop(headers("customer=<script>x</script>")).await;
        assert!(text.contains("Signed in as &lt;script&gt;x&lt;/script&gt;"), "{text}");
        let sent = Gift { r#for: "\"><b>".to_owned(), tea: "Mint".to_owned(), wrapped: None };
        let Html(text) = send_gift(HeaderMap::new(), Form(sent)).await;
        assert!(text.contains(r#"data-thing="Mint for &quot;&gt;&lt;b&gt;""#), "{text}");
    }
}
