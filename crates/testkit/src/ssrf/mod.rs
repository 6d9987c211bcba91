//! The SSRF corpus: spellings of hosts that a hostile page uses to reach what it should not, and what each means.
//!
//! `corpus.tsv` is the table, for people as well as for tests. Core's tests judge the addresses, the egress proxy's tests
//! send the spellings as raw bytes, and a real Chromium tries each of them in every way in which a page can connect.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
};

const TABLE: &str = include_str!("corpus.tsv");

/// One form of the corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SsrfForm {
    /// As it stands in a URL between `http://` and the port, with a user if it has one.
    pub spelling: String,
    /// The host that Chromium reads, with the brackets of IPv6. `None` if it reads no host.
    pub host: Option<&'static str>,
    /// The address behind the host. `None` for a name that must not be resolved, and without a host.
    pub address: Option<IpAddr>,
    /// The word of the refusal: the range of the address, or `metadata`. `invalid` without a host.
    pub class: &'static str,
    /// Whether the kernel connects to a loopback listener for the address.
    pub is_loopback: bool,
    /// Whether Chromium makes a request of it for a page.
    pub is_sent: bool,
    /// Whether an agent can navigate to it: engines read addresses more strictly than Chromium.
    pub is_navigable: bool,
}

impl SsrfForm {
    /// Whether there is a user before the host. Chromium sends few kinds of such requests.
    pub fn has_user(&self) -> bool {
        self.spelling.find('@').is_some_and(|at| at > 0)
    }
}

/// Every form.
pub fn forms() -> Vec<SsrfForm> {
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(parse).collect()
}

fn parse(row: &'static str) -> SsrfForm {
    let columns: Vec<&'static str> = row.split('\t').collect();
    let [spelling, host, address, class, is_loopback, is_sent] = columns[..] else {
        panic!("a row has six columns: {row}");
    };
    let given = |column: &'static str| (column != "-").then_some(column);
    let yes = |column| match column {
        "yes" => true,
        "no" => false,
        _ => panic!("neither yes nor no: {row}"),
    };
    SsrfForm {
        // These two characters have no glyph, so the table names them.
        spelling: spelling.replace("\\u00ad", "\u{ad}").replace("\\u200b", "\u{200b}"),
        host: given(host),
        address: given(address).map(|text| text.parse().expect("the table has addresses in the usual form")),
        class,
        is_loopback: yes(is_loopback),
        is_sent: is_sent == "page" || yes(is_sent),
        is_navigable: is_sent != "page" && yes(is_sent),
    }
}

/// Resolves the corpus' names and no others, and reads numbers as the system's resolver does.
pub fn resolve(name: &str) -> io::Result<Vec<IpAddr>> {
    if let Some(address) = inet_aton(name) {
        return Ok(vec![address.into()]);
    }
    let is_it = |form: &SsrfForm| form.host.is_some_and(|host| host.eq_ignore_ascii_case(name));
    let found = forms().into_iter().find(is_it).and_then(|form| form.address);
    found.map(|address| vec![address]).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("the corpus does not know the name {name}"))
    })
}

/// An IPv4 address of one to four parts, each decimal, octal or hexadecimal, as `inet_aton` reads it. The last part fills
/// all bytes that are left.
fn inet_aton(text: &str) -> Option<Ipv4Addr> {
    let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
    let parts = parts?;
    let (last, leading) = parts.split_last()?;
    let shift = 8 * u32::try_from(leading.len()).ok().filter(|count| *count < 4)?;
    let fits = u64::from(*last) < 1 << (32 - shift) && leading.iter().all(|part| *part < 256);
    let high = leading.iter().fold(0, |high, part| high << 8 | part);
    fits.then(|| Ipv4Addr::from_bits(high.checked_shl(32 - shift).unwrap_or(0) | last))
}

fn number(text: &str) -> Option<u32> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match (hex, text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    // `from_str_radix` would accept a sign too.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_plain { u32::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are read as `inet_aton` reads them; what it refuses is no address.
    #[test]
    fn numbers_are_addresses() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0177.0.01", "127.0.0.1"),
            ("10.65535", "10.0.255.255"),
            ("4294967295", "255.255.255.255"),
            ("0", "0.0.0.0"),
        ] {
            assert_eq!(inet_aton(text), Some(address.parse().unwrap()), "{text}");
        }
        for text in
            ["", "256.0.0.1", "4294967296", "1.2.3.4.5", "127.0.0.1.", "08.1", "+1", "1.16777216", "a"]
        {
            assert_eq!(inet_aton(text), None, "{text}");
        }
    }
}
