//! Settings that name an address to listen on.

use std::net::SocketAddr;

use super::value_type::{FlagShape, GivenValue, InvalidValue, ValueType};

/// An address and a port. Names are not resolved: their meaning may change, and with it who can connect.
pub(super) struct ListenAddress;

impl ValueType for ListenAddress {
    type Value = SocketAddr;

    fn parse(&self, given: GivenValue<'_>) -> Result<SocketAddr, InvalidValue> {
        let text = given.text().ok_or(InvalidValue(None))?;
        let numbers = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        numbers.parse().map_err(|_| InvalidValue(None))
    }

    fn show(&self, value: &SocketAddr) -> String {
        value.to_string()
    }

    fn allowed(&self) -> String {
        "an address and a port, such as `127.0.0.1:34501`".to_owned()
    }

    fn shape(&self) -> FlagShape {
        FlagShape::One("ADDR".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::value_type::tests::text;

    /// An address is numbers with a port; `localhost`, the one name that means the same everywhere, is accepted too.
    #[test]
    fn listen_address_needs_an_ip_and_a_port() {
        assert_eq!(text(&ListenAddress, "127.0.0.1:0"), Ok("127.0.0.1:0".parse().unwrap()));
        assert_eq!(text(&ListenAddress, "localhost:80"), Ok("127.0.0.1:80".parse().unwrap()));
        assert_eq!(text(&ListenAddress, "[::1]:34501"), Ok("[::1]:34501".parse().unwrap()));
        for wrong in ["", "34501", ":34501", "127.0.0.1", "example.com:1", "127.0.0.1:65536", "localhost:x"] {
            assert_eq!(text(&ListenAddress, wrong), Err(InvalidValue(None)), "{wrong}");
        }
    }
}
