//! How the client finds a browser's WebSocket, and what it sends on the way there, against debuggers that the test plays.

use greenroom_cdp::{CdpClient, Error, Unreachable, discover};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::within;

/// The answer of Chromium 156 to `/json/version`, recorded.
const VERSION: &str = r#"{
   "Browser": "HeadlessChrome/156.0.8078.79",
   "File-Path-Style": "posix",
   "Protocol-Version": "1.3",
   "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/156.0.8078.79 Safari/537.36",
   "V8-Version": "15.6.75.27",
   "WebKit-Version": "537.36 (@a21ce95c24ce3964416f09ae1862f53f319eb4d0)",
   "webSocketDebuggerUrl": "ws://127.0.0.1:36093/devtools/browser/2d40f9ca-c0be-4e90-be4f-eaab2a13ce34"
}
"#;

/// Its answer to a `Host` that is neither an address nor `localhost`, recorded.
const WRONG_HOST: &str = "Host header is specified and is not an IP address or localhost.";

const PATH: &str = "/devtools/browser/2d40f9ca-c0be-4e90-be4f-eaab2a13ce34";

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// Takes one request and answers it as Chromium does.
async fn answer(listener: &TcpListener, status: &str, body: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let head = head(&mut stream).await;
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length:{}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    head
}

fn secret() -> Vec<(String, String)> {
    vec![("X-Token".to_owned(), "sesame".to_owned())]
}

/// `discover` finds the browser's WebSocket in the recorded answer, at the requested port, and sends headers and
/// password.
#[tokio::test]
async fn web_socket_is_found() {
    within(async {
        let (listener, port) = listener().await;
        let url = format!("http://ann:pw@127.0.0.1:{port}");
        let headers = secret();
        let (found, head) = tokio::join!(discover(&url, &headers), answer(&listener, "200 OK", VERSION));
        assert_eq!(found.unwrap(), format!("ws://127.0.0.1:{port}{PATH}"));
        assert!(head.starts_with("GET /json/version HTTP/1.1\r\n"), "{head}");
        let head = head.to_lowercase();
        for line in [&format!("host: 127.0.0.1:{port}"), "x-token: sesame", "authorization: basic yw5uonb3"] {
            assert!(head.contains(line), "{line}: {head}");
        }
    })
    .await;
}

/// `discover` asks a browser that refuses a host name again by its IP, and returns an address with that IP.
#[tokio::test]
async fn refused_host_name_is_replaced_by_its_ip() {
    within(async {
        let (listener, port) = listener().await;
        let play = async {
            let first = answer(&listener, "500 Internal Server Error", WRONG_HOST).await;
            let second = answer(&listener, "200 OK", VERSION).await;
            (first.to_lowercase(), second.to_lowercase())
        };
        let url = format!("http://localhost:{port}/");
        let (found, (first, second)) = tokio::join!(discover(&url, &[]), play);
        assert_eq!(found.unwrap(), format!("ws://127.0.0.1:{port}{PATH}"));
        assert!(first.contains(&format!("host: localhost:{port}\r\n")), "{first}");
        assert!(second.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{second}");
    })
    .await;
}

/// `discover` returns a WebSocket address as it is. For one without a path it asks for a debugger first.
#[tokio::test]
async fn web_socket_address_with_a_path_is_kept() {
    within(async {
        let url = "ws://127.0.0.1:1/devtools/browser/e7";
        assert_eq!(discover(url, &[]).await.unwrap(), url);

        let (listener, port) = listener().await;
        let without_path = format!("ws://127.0.0.1:{port}");
        let (found, _) = tokio::join!(discover(&without_path, &[]), answer(&listener, "200 OK", VERSION));
        assert_eq!(found.unwrap(), format!("ws://127.0.0.1:{port}{PATH}"));
        let (found, _) = tokio::join!(discover(&without_path, &[]), answer(&listener, "404 Not Found", ""));
        assert_eq!(found.unwrap(), format!("{without_path}/"));
    })
    .await;
}

/// Every error names the address, without its secrets.
#[tokio::test]
async fn errors_name_the_address() {
    within(async {
        let (listener, port) = listener().await;
        let url = format!("http://ann:sesame@127.0.0.1:{port}/?token=sesame");
        for (status, body, expected) in [
            ("403 Forbidden", "sesame", "refused with 403 Forbidden"),
            ("500 Internal Server Error", WRONG_HOST, "refused with 500 Internal Server Error"),
            ("302 Found", "", "refused with 302 Found"),
            ("200 OK", "<html>sesame", "not a browser's debugger: its answer names no WebSocket"),
            ("200 OK", "{}", "its answer names no WebSocket"),
            ("200 OK", r#"{"webSocketDebuggerUrl": "sesame"}"#, "the address in its answer is invalid"),
            ("200 OK", &"x".repeat(100 << 10), "not a browser's debugger"),
        ] {
            let headers = secret();
            let (found, _) = tokio::join!(discover(&url, &headers), answer(&listener, status, body));
            let error = found.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(error.contains(&format!("http://***@127.0.0.1:{port}/?***")), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
        drop(listener);
        let error = discover(&url, &[]).await.unwrap_err();
        assert!(matches!(&error, Error::Connect { why: Unreachable::Io(_), .. }), "{error}");
        let error = discover("9222", &[]).await.unwrap_err().to_string();
        assert!(error.contains("not a debugger's address"), "{error}");
    })
    .await;
}

/// A debugger that accepts and never answers is given up within the limit, over HTTP and as a WebSocket.
#[tokio::test]
async fn silent_debugger_times_out() {
    within(async {
        let (listener, port) = listener().await;
        let play = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await;
            tokio::time::pause();
            stream
        };
        let url = format!("http://127.0.0.1:{port}");
        let (found, _stream) = tokio::join!(discover(&url, &[]), play);
        assert_eq!(
            found.unwrap_err().to_string(),
            format!("cannot connect to the browser at http://127.0.0.1:{port}: no answer within 5 s")
        );
        tokio::time::resume();

        let play = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await;
            tokio::time::pause();
            stream
        };
        let url = format!("ws://127.0.0.1:{port}/e7");
        let (client, _stream) = tokio::join!(CdpClient::connect(&url), play);
        let error = client.err().unwrap().to_string();
        assert!(error.ends_with("no answer within 10 s"), "{error}");
    })
    .await;
}

/// The opening of the WebSocket carries the headers too, and the error of a refusal names its status.
#[tokio::test]
async fn web_socket_request_carries_the_headers() {
    within(async {
        let (listener, port) = listener().await;
        let url = format!("ws://ann:pw@127.0.0.1:{port}/e7?token=sesame");
        let play = answer(&listener, "403 Forbidden", "sesame");
        let headers = secret();
        let (client, head) = tokio::join!(CdpClient::connect_with(&url, &headers), play);
        assert!(head.starts_with("GET /e7?token=sesame HTTP/1.1\r\n"), "{head}");
        let head = head.to_lowercase();
        assert!(head.contains("x-token: sesame\r\n") && head.contains("authorization: basic yw5uonb3\r\n"));
        let error = client.err().unwrap().to_string();
        assert_eq!(
            error,
            format!(
                "cannot connect to the browser at ws://***@127.0.0.1:{port}/e7?***: refused with 403 Forbidden"
            )
        );
    })
    .await;
}
