//! Which program holds a TCP port of this machine that could not be bound, as far as `/proc` shows.
//!
//! The default port is in the range from which Linux takes the ports of outgoing connections. So a program may hold it
//! without listening there, and `address already in use` alone makes people look for a server that does not exist.

use std::{
    fs,
    net::{IpAddr, SocketAddr},
    path::Path,
};

/// A socket's state in `/proc/net/tcp` when it listens.
const LISTEN: &str = "0A";

/// The holder of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    /// Whether the holder listens there. If not, it is a connection that happens to have that local port.
    pub listens: bool,
    /// The program's name and process id; `None` for a program of another user, whose files cannot be read.
    pub program: Option<(String, u32)>,
}

impl PortHolder {
    /// The program, for messages.
    pub fn describe(&self) -> String {
        match &self.program {
            Some((name, pid)) => format!("`{name}` (pid {pid})"),
            None => "a program of another user".to_owned(),
        }
    }
}

/// The program that holds this port: the one that listens there, or else the one whose connection has it. `None` without
/// `/proc`.
pub fn holder(address: SocketAddr) -> Option<PortHolder> {
    let table_paths = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    let found = table_paths
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| sockets(&table, address));
    let holders = found.map(|LocalSocket { listens, inode }| PortHolder {
        listens,
        program: program(Path::new("/proc"), inode),
    });
    // Prefer a program that listens there to the connections that it has accepted on that port. Ended connections that the
    // kernel still remembers belong to no program.
    holders.max_by_key(|holder| (holder.listens, holder.program.is_some()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LocalSocket {
    listens: bool,
    inode: u64,
}

/// The sockets in a table of `/proc/net` whose local end is this address, or the same port of every address.
fn sockets(table: &str, address: SocketAddr) -> Vec<LocalSocket> {
    let host = table_form(address.ip());
    let socket = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local_host, local_port) = fields.get(1)?.rsplit_once(':')?;
        let inode = fields.get(9)?.parse().ok()?;
        // In the IPv6 table an IPv4 address has a prefix.
        let is_host = local_host.ends_with(&host) || local_host.bytes().all(|digit| digit == b'0');
        let is_meant = is_host && u16::from_str_radix(local_port, 16).ok()? == address.port();
        is_meant.then(|| LocalSocket { listens: fields.get(3) == Some(&LISTEN), inode })
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// An address in the form of the tables: words of four bytes in the machine's own order.
fn table_form(ip: IpAddr) -> String {
    let octets = match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let words = octets.chunks_exact(4).filter_map(|word| word.try_into().ok()).map(u32::from_ne_bytes);
    words.map(|word| format!("{word:08X}")).collect()
}

/// The program that has this socket open.
fn program(proc: &Path, inode: u64) -> Option<(String, u32)> {
    let wanted = format!("socket:[{inode}]");
    let holds = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.as_os_str() == &*wanted)
    };
    let process = fs::read_dir(proc).ok()?.flatten().find_map(|process| {
        let pid: u32 = process.file_name().to_str()?.parse().ok()?;
        holds(&process.path()).then_some((pid, process.path()))
    });
    let (pid, path) = process?;
    let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
    Some((name.trim().to_owned(), pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpSocket};

    /// Rows of the kernel's table are read by port; the first line is a heading.
    #[test]
    fn table_rows_are_matched_by_address() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:86C5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 41 1 0 100 0 0 10 0\n   \
            1: 0100007F:86C5 0100007F:1F90 01 00000000:00000000 00:00000000 00000000     0        0 42 1 0 20 4 30 10 -1\n   \
            2: 0100007F:1F90 0100007F:86C5 01 00000000:00000000 00:00000000 00000000     0        0 43 1 0 20 4 30 10 -1\n";
        let at = |address: &str| sockets(table, address.parse().unwrap());
        let found = at("127.0.0.1:34501");
        assert_eq!(
            found,
            [LocalSocket { listens: true, inode: 41 }, LocalSocket { listens: false, inode: 42 }]
        );
        assert_eq!((at("127.0.0.2:34501"), at("[::1]:34501")), (Vec::new(), Vec::new()));
        assert_eq!(sockets("", "127.0.0.1:1".parse().unwrap()), []);
    }

    /// `holder` finds this process as the holder of its own ports, and tells a listener from a connection.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn own_port_is_held_by_this_process() {
        // No other program has connections from this address.
        let listener = TcpListener::bind("127.0.53.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.53.2:0".parse().unwrap()).unwrap();
        let stream = socket.connect(address).await.unwrap();
        let listens = holder(address).unwrap();
        assert_eq!((listens.listens, listens.program.unwrap().1), (true, std::process::id()));
        let connection = holder(stream.local_addr().unwrap()).unwrap();
        assert_eq!((connection.listens, connection.program.unwrap().1), (false, std::process::id()));
    }
}
