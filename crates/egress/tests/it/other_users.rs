//! Programs of other users cannot use the proxy.

use std::{os::unix::process::CommandExt, process::Command};

use crate::{proxy, within};

/// A user that owns nothing.
const NOBODY: u32 = 65534;

/// What a program gets from the proxy for a request, as this user; `None` is the test's own.
fn ask_as(user: Option<u32>, port: u16) -> String {
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /x HTTP/1.1\\r\\nConnection: close\\r\\n\\r\\n' >&3; cat <&3"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).current_dir("/");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// The proxy answers programs of its own user and closes the connections of others. Only root can start a program as
/// another user; without root the test shows the first half.
#[tokio::test]
async fn programs_of_other_users_get_no_answer() {
    within(async {
        let proxy = proxy().await;
        let port = proxy.address().port();
        let ask = |user| tokio::task::spawn_blocking(move || ask_as(user, port));
        assert!(ask(None).await.unwrap().starts_with("HTTP/1.1 400 "));
        if rustix::process::geteuid().is_root() {
            assert_eq!(ask(Some(NOBODY)).await.unwrap(), "");
        }
    })
    .await;
}
