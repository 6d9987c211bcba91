//! What agents learn of refused connections, from the real binary.

use greenroom_testkit::Site;

use crate::real::fixture::{DataFolder, GatewayFixture};

/// The note about refused connections in an answer.
#[track_caller]
fn note(text: &str) -> &str {
    let note = text.lines().find(|line| line.contains("the network policy refused connections: "));
    note.unwrap_or_else(|| panic!("nothing is said of a refusal: {text}"))
}

/// Under `guarded` the answer says what was refused, why, and with which setting the operator permits it: for http, where
/// the page says it too, and for https, where the tool fails. Rules permit and deny what they name.
#[tokio::test]
async fn answers_name_the_refusal_and_the_setting() {
    let data = DataFolder::new();
    let (site, allowed, denied) = (Site::start().await, Site::start().await, Site::start().await);
    let allow = format!("127.0.0.1:{},127.0.0.1:{}", allowed.port(), denied.port());
    let deny = format!("127.0.0.0/8:{}", denied.port());
    let flags = ["--network-preset", "guarded", "--network-allow", &allow, "--network-deny", &deny];
    let gateway = GatewayFixture::start(&data, &flags).await;

    let answer = gateway.navigate("a", &site.url("/title")).await.ok();
    let refusal = format!(
        "127.0.0.1:{port} is refused: it has a loopback address, and browsers may reach public addresses only",
        port = site.port()
    );
    let remedy =
        format!("(the operator can permit it with `network.allow = [\"127.0.0.1:{}\"]`)", site.port());
    assert!(note(&answer).contains(&format!("{refusal} {remedy}")), "{answer}");
    assert!(answer.contains(&format!("greenroom: {refusal}")), "the page says it too: {answer}");

    let answer = gateway.navigate("a", &site.url("/title").replace("http:", "https:")).await.ok();
    assert!(note(&answer).contains(&format!("{refusal} {remedy}")), "{answer}");
    assert!(answer.contains(&format!("greenroom: {refusal}")), "the page says it too: {answer}");

    let answer = gateway.navigate("a", &denied.url("/title")).await.ok();
    let told = format!("the rule `{deny}` denies it (the operator can remove `{deny}` from `network.deny`)");
    assert!(note(&answer).contains(&told), "{answer}");

    let answer = gateway.navigate("a", &allowed.url("/title?t=inside")).await.ok();
    assert!(answer.contains("heading \"inside\"") && !answer.contains("network policy"), "{answer}");

    // The answer lists a few of the connections that the page itself made during the call; answers in other sessions do
    // not.
    let fetch = format!(
        "() => Promise.all([1, 2, 3, 4, 5].map((last) => \
         fetch(`http://127.0.0.${{last}}:{}/`, {{ mode: 'no-cors' }}).catch(() => null))).then(() => 'tried')",
        site.port()
    );
    let answer = gateway.evaluate("a", &fetch).await.ok();
    assert!(note(&answer).ends_with("; 5 connections in all"), "{answer}");
    let answer = gateway.navigate("b", &allowed.url("/title?t=other")).await.ok();
    assert!(!answer.contains("network policy"), "{answer}");
    let answer = gateway.navigate("a", &allowed.url("/title?t=again")).await.ok();
    assert!(!answer.contains("network policy"), "one answer names a refusal, not two: {answer}");

    assert_eq!((site.requests(), denied.requests()), (vec![], vec![]));
    gateway.end().await;
}
