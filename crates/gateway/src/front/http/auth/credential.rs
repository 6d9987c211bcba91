//! Where a request has its key: `Authorization: Bearer` or `x-api-key`, and nowhere else.

use axum::http::{HeaderMap, HeaderName, Uri, header::AUTHORIZATION};
use percent_encoding::percent_decode_str;

/// The other header for a key, which many clients know.
pub(super) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Names of query parameters under which clients send keys. Addresses end up in logs, histories and `Referer` headers, so a
/// key does not belong there.
const QUERY_NAMES: [&str; 10] = [
    "key",
    "api_key",
    "apikey",
    "api-key",
    "x-api-key",
    "token",
    "access_token",
    "auth",
    "authorization",
    "bearer",
];

/// The key of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Credential<'a> {
    Given(&'a str),
    Missing,
    /// The request has several keys, or one that no header can have.
    Unreadable(&'static str),
}

impl<'a> Credential<'a> {
    pub(super) fn from_headers(headers: &'a HeaderMap) -> Self {
        let mut found = Vec::new();
        let mut other_scheme = false;
        for value in headers.get_all(AUTHORIZATION) {
            let Ok(text) = value.to_str() else {
                return Self::Unreadable("the header `Authorization` is not ASCII text");
            };
            match text.split_once(' ') {
                Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => found.push(secret.trim()),
                // A proxy in front may have a password of its own.
                _ => other_scheme = true,
            }
        }
        for value in headers.get_all(API_KEY) {
            let Ok(text) = value.to_str() else {
                return Self::Unreadable("the header `x-api-key` is not ASCII text");
            };
            found.push(text.trim());
        }
        match found[..] {
            [] if other_scheme => {
                Self::Unreadable("the header `Authorization` has another scheme than `Bearer`")
            }
            [] => Self::Missing,
            [first, ref others @ ..] if others.iter().all(|other| *other == first) => Self::Given(first),
            _ => Self::Unreadable("the request has several API keys, which differ"),
        }
    }
}

/// The name of the query parameter that seems to hold a key.
pub(super) fn query_name(uri: &Uri) -> Option<&'static str> {
    let names = uri.query()?.split(['&', ';']).map(|pair| pair.split('=').next().unwrap_or_default());
    names
        .map(|name| percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase())
        .find_map(|name| QUERY_NAMES.into_iter().find(|known| *known == name))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    /// A key is found in either header; two keys must agree, and another scheme is no key.
    #[test]
    fn keys_are_read_from_two_headers() {
        for (pairs, expected) in [
            (&[][..], Credential::Missing),
            (&[("authorization", "Bearer a")], Credential::Given("a")),
            (&[("authorization", "bearer  a ")], Credential::Given("a")),
            (&[("x-api-key", " a")], Credential::Given("a")),
            (&[("x-api-key", "")], Credential::Given("")),
            (&[("authorization", "Basic eDp5"), ("x-api-key", "a")], Credential::Given("a")),
            (&[("authorization", "Bearer a"), ("x-api-key", "a")], Credential::Given("a")),
        ] {
            assert_eq!(Credential::from_headers(&headers(pairs)), expected, "{pairs:?}");
        }
        for pairs in [
            &[("authorization", "Basic eDp5")][..],
            &[("authorization", "Bearer")],
            &[("authorization", "")],
            &[("authorization", "Bearer a"), ("x-api-key", "b")],
            &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
            &[("x-api-key", "a"), ("x-api-key", "b")],
            &[("x-api-key", "\u{e4}")],
        ] {
            let headers = headers(pairs);
            let found = Credential::from_headers(&headers);
            assert!(matches!(found, Credential::Unreadable(_)), "{pairs:?}: {found:?}");
        }
    }

    /// A key in the query is noticed under its usual names, however they are written.
    #[test]
    fn keys_in_the_query_are_noticed() {
        for (uri, name) in [
            ("/mcp?key=a", Some("key")),
            ("/mcp?x=1&API_KEY=a", Some("api_key")),
            ("/mcp?x=1;token", Some("token")),
            ("/mcp?%61ccess%5Ftoken=a", Some("access_token")),
            ("/mcp", None),
            ("/mcp?", None),
            ("/api/calls?cache_key=a&tool=key", None),
        ] {
            assert_eq!(query_name(&uri.parse().unwrap()), name, "{uri}");
        }
    }
}
