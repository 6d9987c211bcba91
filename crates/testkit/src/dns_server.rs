//! A name server on loopback whose answers the test decides, and the client for it: for names that resolve to another
//! address each time, late, wrongly, or to many addresses.
//!
//! It speaks the part of DNS (RFC 1035) that a lookup over UDP needs. The client believes the server as far as a usual
//! resolver does: it ignores datagrams that answer another question, and fails on those that it cannot read.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, sync::watch, task::JoinHandle};

/// The record types of addresses.
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
const CLASS_INTERNET: u16 = 1;
/// A response to a recursive query, without an error.
const FLAGS_ANSWER: u16 = 0x8180;
const FLAGS_NO_NAME: u16 = 0x8183;
/// The largest datagram over UDP.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// The answer's name, as a pointer to the question's.
const POINTER_TO_QUESTION: u16 = 0xc00c;

/// One question that the server got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsQuestion {
    /// Lower case, without the dot at the end.
    pub name: String,
    /// Whether it asks for IPv6 addresses.
    pub is_v6: bool,
    /// How often the same was asked before.
    pub earlier: usize,
}

/// What the server answers.
#[derive(Debug, Clone)]
pub enum DnsAnswer {
    /// These addresses, of the type that the question asks for, with this time to live in seconds.
    Addresses(Vec<IpAddr>, u32),
    NoSuchName,
    /// Addresses for another name than the one that was asked for.
    OfOtherName(Vec<IpAddr>),
    /// These bytes behind the two of the question's id.
    Garbage(Vec<u8>),
    Silence,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct DnsServer {
    address: SocketAddr,
    questions: watch::Receiver<Vec<DnsQuestion>>,
    task: JoinHandle<()>,
}

impl DnsServer {
    /// Starts a server on a free port of loopback.
    pub async fn start(answer: impl Fn(&DnsQuestion) -> DnsAnswer + Send + 'static) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        let (asked, questions) = watch::channel(Vec::new());
        let task = tokio::spawn(async move {
            let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
            while let Ok((length, from)) = socket.recv_from(&mut datagram).await {
                let Some(query) = Query::read(&datagram[..length]) else { continue };
                let earlier = asked.borrow().iter().filter(|known| query.is_same(known)).count();
                let question = DnsQuestion { name: query.name.clone(), is_v6: query.is_v6(), earlier };
                let answer = answer(&question);
                asked.send_modify(|all| all.push(question));
                if let Some(bytes) = query.response(&answer) {
                    let _ = socket.send_to(&bytes, from).await;
                }
            }
        });
        Self { address, questions, task }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every question so far.
    pub fn questions(&self) -> Vec<DnsQuestion> {
        self.questions.borrow().clone()
    }

    /// How often the IPv4 addresses of a name were asked for: once for each lookup.
    pub fn lookups(&self, name: &str) -> usize {
        self.questions.borrow().iter().filter(|asked| !asked.is_v6 && asked.name == name).count()
    }

    /// Returns when the addresses of this name have been asked for.
    pub async fn wait_for_question(&self, name: &str) {
        let mut questions = self.questions.clone();
        let asked = questions.wait_for(|all| all.iter().any(|question| question.name == name));
        asked.await.expect("the server runs as long as it is held");
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The addresses of a name, IPv4 first, by one question for each type. It waits for ever for a server that does not answer.
pub async fn lookup(server: SocketAddr, name: &str) -> io::Result<Vec<IpAddr>> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let mut addresses = Vec::new();
    for (id, kind) in [(0x4101, TYPE_A), (0x4102, TYPE_AAAA)] {
        let query = Query { id, name: name.clone(), kind };
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        socket.connect(server).await?;
        socket.send(&query.encode()?).await?;
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let length = socket.recv(&mut datagram).await?;
            if let Some(found) = query.read_response(&datagram[..length])? {
                addresses.extend(found);
                break;
            }
        }
    }
    Ok(addresses)
}

/// Addresses that change with each lookup: the first question gets the first list, later ones the next, and the last
/// list stays.
pub fn rotating(lists: Vec<Vec<IpAddr>>) -> impl Fn(&DnsQuestion) -> DnsAnswer + Send + 'static {
    let lists = Arc::new(Mutex::new(lists));
    move |question| {
        let lists = lists.lock().unwrap();
        let list = lists.get(question.earlier).or(lists.last()).cloned().unwrap_or_default();
        DnsAnswer::Addresses(list, 0)
    }
}

struct Query {
    id: u16,
    name: String,
    kind: u16,
}

impl Query {
    fn is_v6(&self) -> bool {
        self.kind == TYPE_AAAA
    }

    fn is_same(&self, question: &DnsQuestion) -> bool {
        self.name == question.name && self.is_v6() == question.is_v6
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for field in [self.id, 0x0100, 1, 0, 0, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(encode_name(&self.name)?);
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(CLASS_INTERNET.to_be_bytes());
        Ok(bytes)
    }

    /// Reads a query; `None` for a datagram that is none.
    fn read(datagram: &[u8]) -> Option<Self> {
        let (name, end) = read_name(datagram, 12)?;
        Some(Self { id: read_u16(datagram, 0)?, name, kind: read_u16(datagram, end)? })
    }

    /// The datagram for an answer; `None` for silence.
    fn response(&self, answer: &DnsAnswer) -> Option<Vec<u8>> {
        let (name, addresses, ttl, flags) = match answer {
            DnsAnswer::Silence => return None,
            DnsAnswer::Garbage(bytes) => {
                return Some(self.id.to_be_bytes().iter().chain(bytes).copied().collect());
            }
            DnsAnswer::NoSuchName => (self.name.as_str(), &[][..], 0, FLAGS_NO_NAME),
            DnsAnswer::Addresses(addresses, ttl) => (self.name.as_str(), &addresses[..], *ttl, FLAGS_ANSWER),
            DnsAnswer::OfOtherName(addresses) => ("other.invalid", &addresses[..], 60, FLAGS_ANSWER),
        };
        let addresses: Vec<_> =
            addresses.iter().filter(|address| address.is_ipv6() == self.is_v6()).collect();
        let count = u16::try_from(addresses.len()).expect("a datagram holds fewer answers");
        let mut bytes = Vec::new();
        for field in [self.id, flags, 1, count, 0, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(encode_name(name).expect("the name was read from a query"));
        bytes.extend(self.kind.to_be_bytes());
        bytes.extend(CLASS_INTERNET.to_be_bytes());
        for address in addresses {
            bytes.extend(POINTER_TO_QUESTION.to_be_bytes());
            bytes.extend(self.kind.to_be_bytes());
            bytes.extend(CLASS_INTERNET.to_be_bytes());
            bytes.extend(ttl.to_be_bytes());
            match address {
                IpAddr::V4(v4) => {
                    bytes.extend(4_u16.to_be_bytes());
                    bytes.extend(v4.octets());
                }
                IpAddr::V6(v6) => {
                    bytes.extend(16_u16.to_be_bytes());
                    bytes.extend(v6.octets());
                }
            }
        }
        Some(bytes)
    }

    /// The addresses in a response to this query; `None` if the datagram answers another one.
    fn read_response(&self, datagram: &[u8]) -> io::Result<Option<Vec<IpAddr>>> {
        let unreadable =
            || io::Error::new(io::ErrorKind::InvalidData, "the name server's answer is unreadable");
        if read_u16(datagram, 0) != Some(self.id) {
            return Ok(None);
        }
        let flags = read_u16(datagram, 2).ok_or_else(unreadable)?;
        let count = read_u16(datagram, 6).ok_or_else(unreadable)?;
        let (name, end) = read_name(datagram, 12).ok_or_else(unreadable)?;
        if name != self.name {
            return Ok(None);
        }
        if flags & 0x000f != 0 {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name does not exist"));
        }
        let mut at = end + 4;
        let mut addresses = Vec::new();
        for _ in 0..count {
            let kind = read_u16(datagram, at + 2).ok_or_else(unreadable)?;
            let length = usize::from(read_u16(datagram, at + 10).ok_or_else(unreadable)?);
            let data = datagram.get(at + 12..at + 12 + length).ok_or_else(unreadable)?;
            let address = match kind {
                TYPE_A => Ipv4Addr::from(<[u8; 4]>::try_from(data).map_err(|_| unreadable())?).into(),
                TYPE_AAAA => Ipv6Addr::from(<[u8; 16]>::try_from(data).map_err(|_| unreadable())?).into(),
                _ => return Err(unreadable()),
            };
            addresses.push(address);
            at += 12 + length;
        }
        Ok(Some(addresses))
    }
}

fn encode_name(name: &str) -> io::Result<Vec<u8>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "a label has 1 to 63 bytes");
    let mut bytes = Vec::new();
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..64).contains(length));
        bytes.push(length.ok_or_else(invalid)?);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    Ok(bytes)
}

/// The name at `at`, and where it ends. Only names without pointers.
fn read_name(datagram: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*datagram.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        let label = datagram.get(at..at + length).filter(|_| length < 64)?;
        labels.push(String::from_utf8_lossy(label).to_ascii_lowercase());
        at += length;
    }
}

fn read_u16(datagram: &[u8], at: usize) -> Option<u16> {
    let bytes = datagram.get(at..at + 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}
