//! How fast network verdicts are: whether a browser may connect to an address, by a policy with few and with many rules.

use std::{hint::black_box, net::IpAddr, time::Instant};

use greenroom_core::network::{
    DialTarget, NetworkPolicy, NetworkRule, OwnAddresses, OwnPorts, PolicyLayers,
    rule::canonical_host,
    verdict::{check_name, check_target},
};

use crate::{
    machine::{cores, pin},
    programs::Programs,
    report::{Goal, Row, Section},
    stats::median,
};

/// A page load has some hundred connections, so that verdicts take less than a thousandth of it.
const FEW_RULES_GOAL: f64 = 1_000_000.0;

/// The numbers of rules, of which a policy has half in each list. The last is the most that a list may have, twice.
const RULES: [usize; 3] = [0, 10, 2_000];

/// Hosts with their addresses, as pages and attackers name them.
const TARGETS: [(&str, &str); 6] = [
    ("www.example.com", "93.184.216.34"),
    ("Static.Example.Com.", "2606:4700::6810:84e5"),
    ("127.0.0.1", "127.0.0.1"),
    ("intranet.example.com", "10.1.2.3"),
    ("[::ffff:a9fe:a9fe]", "::ffff:169.254.169.254"),
    ("[2002:c0a8:101::]", "2002:c0a8:101::"),
];

struct NoPorts;

impl OwnPorts for NoPorts {
    fn contains(&self, _: u16) -> bool {
        false
    }
}

struct NoAddresses;

impl OwnAddresses for NoAddresses {
    fn contains(&self, _: IpAddr) -> Option<bool> {
        Some(false)
    }
}

pub fn measure(_: &Programs, quick: bool) -> Section {
    let (rounds, verdicts) = if quick { (3, 20_000) } else { (15, 200_000) };
    let all = cores();
    pin(None, &all[..1]);
    let mut rates: [Vec<f64>; RULES.len()] = Default::default();
    for _ in 0..rounds {
        for (rates, rules) in rates.iter_mut().zip(RULES) {
            // A verdict compares a rule in some nanoseconds, so that many rules need fewer verdicts.
            rates.push(verdict_rate(&policy(rules), verdicts / (1 + rules / 20)));
        }
    }
    pin(None, &all);
    let [none, few, many] = rates.map(|rates| median(&rates));
    let row = |rules: usize, rate: f64| {
        Row::new(
            format!("network verdicts a second, {rules} rules, one core"),
            format!("{rate:.0}"),
            String::new(),
        )
    };
    let rows = vec![
        row(RULES[0], none).goal(Goal::check("≥ 1,000,000", none >= FEW_RULES_GOAL)),
        row(RULES[1], few).goal(Goal::check("≥ 1,000,000", few >= FEW_RULES_GOAL)),
        row(RULES[2], many),
    ];
    let how = format!(
        "The verdict on one connection of a browser: its host is written in its canonical form, judged by name, and judged by \
         address, under `guarded`. {} hosts in turn, public and private ones. The rules are networks, hosts and patterns, half of \
         them in each list, and none matches. The proxy also asks the system whether a public address is this machine's; that \
         is not measured here. {rounds} rounds on one core, medians.",
        TARGETS.len()
    );
    Section { title: "Network verdicts", rows, how }
}

/// A guarded policy with this many rules, none of which matches a target.
fn policy(rules: usize) -> PolicyLayers {
    let rule = |number: usize| -> NetworkRule {
        let rule = match number % 3 {
            0 => format!("11.{}.{}.0/24:443", number / 256, number % 256),
            1 => format!("host{number}.example.net"),
            _ => format!("*.host{number}.example.*:8443"),
        };
        rule.parse().expect("the rule is one")
    };
    let list: Vec<NetworkRule> = (0..rules / 2).map(rule).collect();
    NetworkPolicy { allow: list.clone(), deny: list, ..NetworkPolicy::GUARDED }.into()
}

fn verdict_rate(policy: &PolicyLayers, verdicts: usize) -> f64 {
    let targets: Vec<(&str, IpAddr)> =
        TARGETS.iter().map(|(host, address)| (*host, address.parse().expect("an address"))).collect();
    let begun = Instant::now();
    for (host, address) in targets.iter().cycle().take(verdicts) {
        let host = canonical_host(black_box(host));
        let named = check_name(&host, 443, policy);
        let target = DialTarget { host, address: *address, port: 443 };
        let judged = named.and_then(|()| check_target(&target, &NoPorts, &NoAddresses, policy));
        // A verdict that is not used would not be made.
        let _ = black_box(judged);
    }
    verdicts as f64 / begun.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules match no target, so that each verdict compares all of them.
    #[test]
    fn rules_match_nothing() {
        for (host, address) in TARGETS {
            let verdict = |rules| {
                let target =
                    DialTarget { host: canonical_host(host), address: address.parse().unwrap(), port: 443 };
                check_target(&target, &NoPorts, &NoAddresses, &policy(rules))
            };
            assert_eq!(verdict(0), verdict(2_000), "{host}");
        }
    }
}
