//! Which user of this machine is at the other end of a loopback connection.
//!
//! The proxy's ports are open to every program of the machine, and browsers cannot be made to show credentials without a
//! round trip for each context. So the proxy asks the kernel instead: a socket belongs to a user, and a browser's sockets
//! belong to the user who runs greenroom. Programs of that user could connect to sites themselves. A server without keys
//! asks the same about its clients.
//!
//! The kernel answers by netlink (`sock_diag`) for exactly one connection. Where that is missing, `/proc/net/tcp` lists all
//! IPv4 connections. Systems other than Linux have neither, and every user counts as greenroom's own there.

#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, net::SocketAddr};

/// Whether the client of this connection runs as the same user as greenroom. An unknown user is another one.
pub(crate) fn is_own(client: SocketAddr, proxy: SocketAddr) -> bool {
    match user(client, proxy) {
        Ok(user) => user == rustix::process::geteuid().as_raw(),
        Err(error) => {
            tracing::debug!(%error, "cannot tell which user connects to the egress proxy, so the connection is refused");
            false
        }
    }
}

/// Whether the client of this connection to a server is a program of greenroom's own user, or of root, who can do everything
/// anyway. An unknown user is another one.
pub fn is_own_or_root(client: SocketAddr, server: SocketAddr) -> bool {
    match user(client, server) {
        Ok(user) => user == 0 || user == rustix::process::geteuid().as_raw(),
        Err(error) => {
            tracing::debug!(%error, "cannot tell which user connects to the server, so the connection is refused");
            false
        }
    }
}

/// Whether the kernel has answered once. The table of all connections is long, and any program can make the proxy look for a
/// connection that has ended.
#[cfg(target_os = "linux")]
static KERNEL_ANSWERS: AtomicBool = AtomicBool::new(false);

#[cfg(target_os = "linux")]
fn user(client: SocketAddr, proxy: SocketAddr) -> io::Result<u32> {
    match linux::ask_kernel(client, proxy) {
        Ok(user) => {
            KERNEL_ANSWERS.store(true, Ordering::Relaxed);
            Ok(user)
        }
        // A kernel that answers knows every connection: this one has ended meanwhile.
        Err(error) if KERNEL_ANSWERS.load(Ordering::Relaxed) => Err(error),
        Err(_) => linux::search_table(client, proxy),
    }
}

#[cfg(not(target_os = "linux"))]
fn user(_: SocketAddr, _: SocketAddr) -> io::Result<u32> {
    Ok(rustix::process::geteuid().as_raw())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, time::Duration};

    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    };

    use std::net::{IpAddr, SocketAddr};

    use super::io;

    /// The kernel answers at once; a socket without a limit could still wait for ever.
    const ANSWER_WITHIN: Duration = Duration::from_secs(1);

    // From `linux/netlink.h`, `linux/sock_diag.h` and `linux/inet_diag.h`.
    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const IPPROTO_TCP: u8 = 6;
    /// The header of a message, and of a socket's id in it: family, state, timer and retransmits.
    const HEADER_BYTES: usize = 16;
    const ID_BYTES: usize = 48;
    const REQUEST_BYTES: u32 = 72;
    /// Where an answer has the user: behind the id and three numbers.
    const USER_AT: usize = HEADER_BYTES + 4 + ID_BYTES + 12;

    /// Asks the kernel for the client's socket, whose local address is `client` and whose peer is `proxy`.
    pub(super) fn ask_kernel(client: SocketAddr, proxy: SocketAddr) -> io::Result<u32> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WITHIN))?;
        send(&socket, &request(client, proxy), SendFlags::empty())?;
        let mut answer = [0; 512];
        let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
        read_user(&answer[..length])
    }

    fn request(client: SocketAddr, proxy: SocketAddr) -> Vec<u8> {
        let mut request = Vec::with_capacity(REQUEST_BYTES as usize);
        // nlmsghdr: length, type, flags, sequence number, process.
        request.extend(REQUEST_BYTES.to_ne_bytes());
        request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request.extend(NLM_F_REQUEST.to_ne_bytes());
        request.extend([0; 8]);
        // inet_diag_req_v2: family, protocol, no extensions, padding, all states.
        let family = if client.is_ipv4() { AF_INET } else { AF_INET6 };
        request.extend([family, IPPROTO_TCP, 0, 0]);
        request.extend(u32::MAX.to_ne_bytes());
        // inet_diag_sockid: ports and addresses in network order, any interface, no cookie.
        request.extend(client.port().to_be_bytes());
        request.extend(proxy.port().to_be_bytes());
        for address in [client, proxy] {
            match address.ip() {
                IpAddr::V4(ip) => {
                    request.extend(ip.octets());
                    request.extend([0; 12]);
                }
                IpAddr::V6(ip) => request.extend(ip.octets()),
            }
        }
        request.extend([0; 4]);
        request.extend([0xff; 8]);
        request
    }

    fn read_user(answer: &[u8]) -> io::Result<u32> {
        let kind = answer.get(4..6).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
        let user = answer.get(USER_AT..USER_AT + 4).and_then(|bytes| bytes.try_into().ok());
        match (kind, user) {
            (Some(SOCK_DIAG_BY_FAMILY), Some(user)) => Ok(u32::from_ne_bytes(user)),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the kernel does not know the connection")),
        }
    }

    /// Looks for the client's socket in the table of all IPv4 connections.
    pub(super) fn search_table(client: SocketAddr, proxy: SocketAddr) -> io::Result<u32> {
        find_user(&fs::read_to_string("/proc/net/tcp")?, client, proxy)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the connection is not listed"))
    }

    pub(super) fn find_user(table: &str, client: SocketAddr, proxy: SocketAddr) -> Option<u32> {
        // The table has the address as the number that its bytes make in memory.
        let form = |end: SocketAddr| match end.ip() {
            IpAddr::V4(ip) => Some(format!("{:08X}:{:04X}", u32::from_ne_bytes(ip.octets()), end.port())),
            IpAddr::V6(_) => None,
        };
        let local = form(client)?;
        let remote = form(proxy)?;
        table.lines().find_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let is_it = fields.next() == Some(&local) && fields.next() == Some(&remote);
            fields.nth(4).filter(|_| is_it)?.parse().ok()
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Both ways name the user of a real connection, and neither names one for a connection that does not exist. The table
    /// has IPv4 connections only.
    #[test]
    fn user_of_a_connection_is_found() {
        for loopback in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(loopback) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let proxy = client.peer_addr().unwrap();
            let own_end = client.local_addr().unwrap();
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(linux::ask_kernel(own_end, proxy).unwrap(), own);
            assert_eq!(linux::search_table(own_end, proxy).ok(), own_end.is_ipv4().then_some(own));
            assert!(is_own(own_end, proxy) && is_own_or_root(own_end, proxy));
            let absent = SocketAddr::new(own_end.ip(), 1);
            assert!(linux::ask_kernel(absent, proxy).is_err());
            assert!(linux::search_table(absent, proxy).is_err());
            assert!(!is_own(absent, proxy) && !is_own_or_root(absent, proxy));
        }
    }

    /// A line of the table is read by its fields: local end, remote end, and the user behind three others.
    #[test]
    fn table_lines_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 111 1\n   \
            1: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000 65534        0 222 1\n";
        let end = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(linux::find_user(table, end(0xd431), end(0x1f90)), Some(65534));
        assert_eq!(linux::find_user(table, end(0x1f90), end(0xd431)), Some(1000));
        assert_eq!(linux::find_user(table, end(1), end(2)), None);
    }
}
