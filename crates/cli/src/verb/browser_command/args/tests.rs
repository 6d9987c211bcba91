//! Which call each verb makes of its arguments.

use super::*;
use serde_json::json;

/// An address without a scheme is https, and http on this machine; other schemes stay.
#[test]
fn address_without_a_scheme_gets_one() {
    for (given, expected) in [
        ("example.com", "https://example.com"),
        ("example.com:8443/a?b=c", "https://example.com:8443/a?b=c"),
        ("example.com/?to=http://c", "https://example.com/?to=http://c"),
        ("http://example.com", "http://example.com"),
        ("localhost", "http://localhost"),
        ("localhost:3000/x", "http://localhost:3000/x"),
        ("shop.localhost:3000", "http://shop.localhost:3000"),
        ("127.0.0.1:80", "http://127.0.0.1:80"),
        ("127.1.2.3", "http://127.1.2.3"),
        ("[::1]:8000/", "http://[::1]:8000/"),
        ("[2001:db8::1]/", "https://[2001:db8::1]/"),
        ("localhost.example.com", "https://localhost.example.com"),
        ("about:blank", "about:blank"),
        ("About:Blank", "About:Blank"),
        ("FiLe:/etc/hosts", "FiLe:/etc/hosts"),
        ("file:8080/x", "https://file:8080/x"),
        ("data:text/html,x", "data:text/html,x"),
    ] {
        assert_eq!(url(given).unwrap(), expected);
    }
    for wrong in ["", "/etc/passwd", "./page.html", "#a"] {
        assert!(url(wrong).is_err(), "{wrong}");
    }
}

/// Fields are pairs, in which a selector may contain `=`; one field may also be two words.
#[test]
fn form_fields_are_parsed_as_pairs() {
    let read = |given: &[&str]| {
        let given: Vec<_> = given.iter().map(|word| (*word).to_owned()).collect();
        let fields = fields(&given).map_err(|error| error.to_string())?;
        Ok::<_, String>(fields.into_iter().map(|field| (field.target, field.value)).collect::<Vec<_>>())
    };
    let pair = |target: &str, value: &str| (target.to_owned(), value.to_owned());
    assert_eq!(read(&["e5=Alice", "@e6=a=b"]).unwrap(), [pair("e5", "Alice"), pair("e6", "a=b")]);
    assert_eq!(read(&["e5", "Alice=x"]).unwrap(), [pair("e5", "Alice=x")]);
    assert_eq!(read(&["input[name=city]=London"]).unwrap(), [pair("input[name=city]", "London")]);
    assert_eq!(read(&["e5="]).unwrap(), [pair("e5", "")]);
    for wrong in [&["e5"][..], &["e5", "a", "b"], &["=x"], &["input[name=city]"]] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

/// Values that are JSON count as such, others are text; a whole object stays as it is spelt.
#[test]
fn tool_arguments_are_parsed_as_json_or_text() {
    let read = |given: &[&str]| {
        let given: Vec<_> = given.iter().map(|word| (*word).to_owned()).collect();
        arguments(&given).map(|raw| raw.get().to_owned()).map_err(|error| error.to_string())
    };
    let value: Value = serde_json::from_str(
        &read(&["url=a=b", "n=1.5", "yes=true", "list=[1]", "text=\"1\"", "none="]).unwrap(),
    )
    .unwrap();
    let expected = json!({"url": "a=b", "n": 1.5, "yes": true, "list": [1], "text": "1", "none": ""});
    assert_eq!(value, expected);
    assert_eq!(read(&[r#" {"a":1.50} "#]).unwrap(), r#"{"a":1.50}"#);
    assert_eq!(read(&[]).unwrap(), "{}");
    for wrong in [&["x"][..], &["=x"], &["{"], &["a=1", "a=2"], &["{}", "a=1"]] {
        assert!(read(wrong).is_err(), "{wrong:?}");
    }
}

/// A time to wait is a number within bounds.
#[test]
fn wait_times_are_limited() {
    assert_eq!(seconds("1.5"), Ok(1.5));
    for wrong in ["-1", "x", "1e9", "NaN", "601"] {
        assert!(seconds(wrong).is_err(), "{wrong}");
    }
}

/// `call` runs in the session that its arguments name; a second name is refused, unless it is the same.
#[test]
fn session_of_call_is_named_once() {
    let session = |option: Option<&str>, arguments: &[&str]| {
        let options = CallOptions { session: option.map(ToOwned::to_owned), ..CallOptions::default() };
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let request = CommandRequest::try_from(CallArgs { tool: "t".to_owned(), arguments, options });
        request.map(|request| request.options.session)
    };
    assert_eq!(session(None, &["a=1"]).unwrap(), None);
    assert_eq!(session(Some("a"), &["a=1"]).unwrap().as_deref(), Some("a"));
    assert_eq!(session(None, &["sessionId=b"]).unwrap().as_deref(), Some("b"));
    assert_eq!(session(Some("b"), &[r#"{"sessionId": "b"}"#]).unwrap().as_deref(), Some("b"));
    let error = session(Some("a"), &["sessionId=b"]).unwrap_err();
    assert!(error.to_string().contains("two sessions are named: `a` and `sessionId=b`"), "{error}");
}
