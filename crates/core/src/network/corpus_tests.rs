//! The verdicts over the SSRF corpus.

use std::{collections::BTreeSet, net::IpAddr};

use greenroom_testkit::ssrf::{self, SsrfForm};
use url::{Host, Url};

use super::{
    AddressRange, Blocked, DialTarget, NetworkPolicy, OwnAddresses, OwnPorts, PolicyLayers,
    rule::canonical_host,
    verdict::{check_name, check_target},
};

pub(super) struct NoPorts;
impl OwnPorts for NoPorts {
    fn contains(&self, _: u16) -> bool {
        false
    }
}

pub(super) struct NoAddresses;
impl OwnAddresses for NoAddresses {
    fn contains(&self, _: IpAddr) -> Option<bool> {
        Some(false)
    }
}

/// The verdict that a proxy reaches: on the name first, then on its address.
fn verdict(form: &SsrfForm, policy: NetworkPolicy) -> Result<(), Blocked> {
    let layers = PolicyLayers::from(policy);
    let host = canonical_host(form.host.unwrap());
    check_name(&host, 81, &layers)?;
    let address = form.address.unwrap_or_else(|| panic!("no address, and the name is permitted: {form:?}"));
    check_target(&DialTarget { host, address, port: 81 }, &NoPorts, &NoAddresses, &layers)
}

/// The table says what the URL standard reads, has enough forms, and has every class.
#[test]
fn corpus_is_read_as_the_url_standard_reads_it() {
    let forms = ssrf::forms();
    assert!(forms.len() >= 150, "{}", forms.len());
    for form in &forms {
        let url = Url::parse(&format!("http://{}:81/", form.spelling));
        let host = url.as_ref().ok().and_then(Url::host_str);
        // Chromium reads a few more spellings of IPv6 than the standard.
        let is_wider = form.is_sent && !form.is_navigable;
        assert_eq!(host, form.host.filter(|_| !is_wider), "{form:?}");
        let literal = match url.as_ref().ok().and_then(Url::host) {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            Some(Host::Domain(_)) | None => None,
        };
        assert!(literal.is_none() || literal == form.address, "{form:?}");
        assert_eq!(form.class == "invalid", form.host.is_none(), "{form:?}");
    }
    let classes: BTreeSet<&str> = forms.iter().map(|form| form.class).collect();
    let ranges = AddressRange::ALL.into_iter().filter(|range| *range != AddressRange::ThisMachine);
    let expected = ranges.map(AddressRange::word).chain(["metadata", "invalid"]).collect();
    assert_eq!(classes, expected);
    let spellings: BTreeSet<&str> = forms.iter().map(|form| form.spelling.as_str()).collect();
    assert_eq!(spellings.len(), forms.len(), "a spelling is in the table twice");
}

/// `guarded` refuses every form with the word of its class; `open` refuses metadata alone.
#[test]
fn corpus_is_refused_under_guarded() {
    for form in ssrf::forms().iter().filter(|form| form.host.is_some()) {
        let guarded = verdict(form, NetworkPolicy::GUARDED);
        assert_eq!(guarded.as_ref().map_err(Blocked::word), Err(form.class), "{form:?}");
        let open = verdict(form, NetworkPolicy::OPEN);
        assert_eq!(open.is_err(), form.class == "metadata", "{form:?}");
    }
}

/// The rule that a refusal proposes to the operator is one, and permits the connection.
#[test]
fn proposed_rules_permit_the_connection() {
    for form in ssrf::forms().iter().filter(|form| form.host.is_some() && form.class != "metadata") {
        let host = form.host.unwrap();
        let refused = verdict(form, NetworkPolicy::GUARDED).unwrap_err();
        let remedy = refused.remedy(host, 81).unwrap();
        let rule = remedy.split('"').nth(1).unwrap();
        let rule = rule.parse().unwrap_or_else(|error| panic!("{rule}: {error}"));
        let policy = NetworkPolicy { allow: vec![rule], ..NetworkPolicy::GUARDED };
        assert_eq!(verdict(form, policy), Ok(()), "{form:?}");
    }
}
