//! The secret of a key: `grm_`, 256 random bits in base 62, and a checksum of six characters.
//!
//! The prefix lets people and scanners of source code recognise a key. With the checksum greenroom tells a key that was
//! copied in part from a wrong one. Operators may choose other secrets in `GREENROOM_API_KEYS`.

use std::fmt;

use sha2::{Digest, Sha256};

/// The beginning of each secret that greenroom makes.
pub const PREFIX: &str = "grm_";

/// 256 bits need 43 digits in base 62, and the 32 bits of the checksum six.
const BODY_DIGITS: usize = 43;
const CHECKSUM_DIGITS: usize = 6;

/// The length of a secret that an operator chooses. Sixteen random characters have some 95 bits. The longest is far below
/// what a header may have.
pub const SECRET_BYTES_MIN: usize = 16;
pub const SECRET_BYTES_MAX: usize = 256;

const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret that a client sends. It is shown where it is made, and never printed elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeySecret(String);

/// Why a text cannot be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    #[error("it has fewer than {SECRET_BYTES_MIN} characters")]
    TooShort,
    #[error("it has more than {SECRET_BYTES_MAX} characters")]
    TooLong,
    #[error("it has a character that is not printable ASCII, a space or a comma")]
    Character,
    #[error("it begins with `{PREFIX}` but is not a whole key: a part is missing or mistyped")]
    Incomplete,
}

impl ApiKeySecret {
    /// A new secret, made of random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        let body = base62::<BODY_DIGITS>(&random);
        Self(format!("{PREFIX}{body}{}", checksum(&body)))
    }

    /// A secret as a person or a client wrote it.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        if let Some(rest) = text.strip_prefix(PREFIX) {
            return if is_whole(rest) { Ok(Self(text.to_owned())) } else { Err(InvalidSecret::Incomplete) };
        }
        if text.len() < SECRET_BYTES_MIN {
            return Err(InvalidSecret::TooShort);
        }
        if text.len() > SECRET_BYTES_MAX {
            return Err(InvalidSecret::TooLong);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') {
            return Err(InvalidSecret::Character);
        }
        Ok(Self(text.to_owned()))
    }

    /// The secret itself, to show it once or to send it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub fn hash(&self) -> ApiKeyHash {
        ApiKeyHash::of(&self.0)
    }
}

impl fmt::Debug for ApiKeySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKeySecret(..)")
    }
}

fn is_whole(rest: &str) -> bool {
    rest.len() == BODY_DIGITS + CHECKSUM_DIGITS
        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && checksum(&rest[..BODY_DIGITS]) == rest[BODY_DIGITS..]
}

fn checksum(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    base62::<CHECKSUM_DIGITS>(&digest[..4])
}

/// A number, most significant byte first, in `N` digits. The caller chooses `N` so that every number fits.
fn base62<const N: usize>(number: &[u8]) -> String {
    let mut number = number.to_vec();
    let mut digits = [0; N];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0;
        for byte in &mut number {
            let value = rest << 8 | u32::from(*byte);
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            rest = value % 62;
        }
        *digit = DIGITS[rest as usize];
    }
    String::from_utf8_lossy(&digits).into_owned()
}

/// The SHA-256 of a secret: what greenroom stores, and by which it looks a secret up. A lookup takes a time that depends on
/// the hash, from which the secret cannot be computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKeyHash([u8; 32]);

impl ApiKeyHash {
    /// The hash of any text that a client sends as its secret.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret.as_bytes()).into())
    }

    /// 64 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// A hash is no secret, but a log needs no more of it than what tells two apart.
impl fmt::Debug for ApiKeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeyHash({}…)", &self.to_hex()[..8])
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A secret has its prefix, reads back, and is not printed.
    #[test]
    fn secrets_are_recognisable_and_masked() {
        let secret = ApiKeySecret::new([7; 32]);
        assert_eq!(secret.reveal().len(), 53);
        assert!(secret.reveal().starts_with("grm_"));
        assert_eq!(ApiKeySecret::parse(secret.reveal()).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "ApiKeySecret(..)");
        assert_ne!(secret.reveal(), ApiKeySecret::new([8; 32]).reveal());
        assert!(!format!("{:?}", secret.hash()).contains(&secret.hash().to_hex()[..12]));
    }

    /// The numbers at both ends fit into the digits.
    #[test]
    fn base_62_is_exact() {
        assert_eq!(base62::<6>(&[0; 4]), "000000");
        assert_eq!(base62::<6>(&[0, 0, 0, 62]), "000010");
        assert_eq!(base62::<6>(&[0xff; 4]), "4gfFC3");
        assert_eq!(base62::<43>(&[0; 32]), "0".repeat(43));
        assert_ne!(base62::<43>(&[0xff; 32]), base62::<43>(&[0xfe; 32]));
    }

    /// Secrets that operators choose have a least length and no character that breaks a list or a header.
    #[test]
    fn chosen_secrets_are_checked() {
        assert!(ApiKeySecret::parse("0123456789abcdef").is_ok());
        assert_eq!(ApiKeySecret::parse("0123456789abcde"), Err(InvalidSecret::TooShort));
        assert_eq!(ApiKeySecret::parse(&"x".repeat(257)), Err(InvalidSecret::TooLong));
        for wrong in
            ["0123456789,abcdef", "0123456789 abcdef", "0123456789\r\nabcdef", "0123456789\u{e4}bcdef"]
        {
            assert_eq!(ApiKeySecret::parse(wrong), Err(InvalidSecret::Character), "{wrong:?}");
        }
    }

    proptest! {
        /// Every random number makes a secret that reads back; a part of it, or one other character, does not.
        #[test]
        fn part_of_a_secret_is_recognised(
            random in any::<[u8; 32]>(), length in 4_usize..53, at in 4_usize..53, digit in 0_usize..62,
        ) {
            let secret = ApiKeySecret::new(random);
            prop_assert_eq!(ApiKeySecret::parse(secret.reveal()), Ok(secret.clone()));
            prop_assert_eq!(
                ApiKeySecret::parse(&secret.reveal()[..length]),
                Err(InvalidSecret::Incomplete)
            );
            let mut other = secret.reveal().as_bytes().to_vec();
            if other[at] != DIGITS[digit] {
                other[at] = DIGITS[digit];
                let other = String::from_utf8(other).unwrap();
                prop_assert_eq!(ApiKeySecret::parse(&other), Err(InvalidSecret::Incomplete));
            }
            prop_assert_eq!(ApiKeyHash::from_hex(&secret.hash().to_hex()), Some(secret.hash()));
        }
    }
}
