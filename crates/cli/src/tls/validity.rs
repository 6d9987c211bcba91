//! When a certificate is valid: the one thing that greenroom reads in it itself, to warn of an expired one.

use std::time::SystemTime;

use greenroom_core::time::parse;

const SEQUENCE: u8 = 0x30;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The certificate's version, which the first version of the format does not have.
const VERSION: u8 = 0xa0;

#[derive(Debug, PartialEq, Eq)]
pub struct Validity {
    pub begins: SystemTime,
    pub ends: SystemTime,
}

impl Validity {
    /// Reads a certificate in DER. `None` if it is not one.
    pub fn of(certificate: &[u8]) -> Option<Self> {
        let (certificate, _) = element(certificate, SEQUENCE)?;
        let (mut rest, _) = element(certificate, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            rest = any_element(rest)?.2;
        }
        // Serial number, signature algorithm and issuer.
        for _ in 0..3 {
            rest = any_element(rest)?.2;
        }
        let (validity, _) = element(rest, SEQUENCE)?;
        let (tag, begins, rest) = any_element(validity)?;
        let begins = time(tag, begins)?;
        let (tag, ends, _) = any_element(rest)?;
        Some(Self { begins, ends: time(tag, ends)? })
    }
}

/// The content of the first element, which must have this tag, and the bytes after it.
fn element(der: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, rest) = any_element(der)?;
    (tag == expected).then_some((content, rest))
}

/// Tag and content of the first element, and the bytes after it.
fn any_element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, der) = der.split_first()?;
    let (&first, der) = der.split_first()?;
    let (length, der) = match first {
        0..=0x7f => (usize::from(first), der),
        // The length itself has one to four bytes.
        0x81..=0x84 => {
            let (bytes, der) = der.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), der)
        }
        _ => return None,
    };
    let (content, rest) = der.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ`, with years from 1950 to 2049, or `YYYYMMDDHHMMSSZ`.
fn time(tag: u8, text: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.is_ascii())?;
    let digits = text.strip_suffix('Z')?;
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let century = if digits < "50" { "20" } else { "19" };
            (format!("{century}{}", &digits[..2]), &digits[2..])
        }
        (GENERALIZED_TIME, 14) => (digits[..4].to_owned(), &digits[4..]),
        _ => return None,
    };
    let part = |at: usize| &rest[at..at + 2];
    parse(&format!("{year}-{}-{}T{}:{}:{}Z", part(0), part(2), part(4), part(6), part(8)))
}

#[cfg(test)]
mod tests {
    use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};

    use super::*;

    /// Both forms of times are read; a certificate that is cut anywhere before them is none.
    #[test]
    fn validity_is_read() {
        let expired =
            CertificateDer::from_pem_slice(include_bytes!("../../tests/data/tls/expired.pem")).unwrap();
        let validity = Validity::of(&expired).unwrap();
        assert_eq!(Some(validity.begins), parse("2020-01-01T00:00:00Z"));
        assert_eq!(Some(validity.ends), parse("2020-02-01T00:00:00Z"));
        let one = CertificateDer::from_pem_slice(include_bytes!("../../tests/data/tls/one.pem")).unwrap();
        assert!(Validity::of(&one).unwrap().ends > parse("2100-01-01T00:00:00Z").unwrap());
        for length in 0..expired.len() {
            assert_eq!(Validity::of(&expired[..length]), None);
        }
        for odd in [
            &b"200101000000"[..],
            b"200101000000X",
            b"2001010000Z",
            b"20\xc3\xa4101000000Z",
            b"209901000000Z",
        ] {
            assert_eq!(time(UTC_TIME, odd), None, "{odd:?}");
        }
        assert_eq!(time(UTC_TIME, b"500101000000Z"), parse("1950-01-01T00:00:00Z"));
    }
}
