//! Sessions never see each other: not in storage, not in answers, not in files, whatever their ids look like.
//!
//! Each session has a word that no other has. It puts the word wherever a browser stores data, and every word that an
//! answer, file or screenshot shows must be that session's. The order of steps is drawn from a seed that is printed, so
//! that a failure can be repeated with GREENROOM_TEST_SEED.

use std::{collections::HashMap, path::PathBuf};

use greenroom_testkit::Site;
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture, ToolAnswer, all, launch},
    inspect,
    random::Random,
};

/// Ids that are easily confused. The empty one stands for calls without `sessionId`.
fn ids() -> Vec<String> {
    let ids = ["", "a", "A", "a ", "\u{430}", "a\u{200b}", "../a", "a/../a", "connection 1"];
    ids.into_iter().map(str::to_owned).chain(["a".repeat(256)]).collect()
}

/// Ten sessions in one browser stay apart.
#[tokio::test]
async fn ten_sessions_in_one_browser_stay_apart() {
    mix(&["--pool-slots", "16", "--pool-viewport-size", "640x360"], 120).await;
}

/// Ten sessions over two browsers stay apart.
#[tokio::test]
async fn ten_sessions_over_two_browsers_stay_apart() {
    mix(&["--pool-slots", "5", "--pool-viewport-size", "640x360"], 100).await;
}

/// One session of the mix.
struct MixedSession {
    id: String,
    word: String,
    colour: [u8; 3],
    /// Whether the word has been put into the browser's storage.
    planted: bool,
    /// The session's private folder, once an answer has shown it.
    folder: Option<PathBuf>,
}

struct IsolationRun {
    gateway: GatewayFixture,
    site: Site,
    workspace: PathBuf,
    words: Vec<String>,
    calls: usize,
}

/// Mixes sessions until `calls` calls are made.
pub async fn mix(flags: &[&str], calls: usize) {
    let mut random = Random::new();
    let data = DataFolder::new();
    let workspace = tempfile::tempdir().unwrap();
    let site = Site::start().await;
    let gateway = GatewayFixture::spawn(launch(data.path(), flags).cwd(workspace.path())).await;
    let mut sessions: Vec<_> =
        ids().into_iter().enumerate().map(|(n, id)| MixedSession::new(n, id)).collect();
    let words: Vec<_> = sessions.iter().map(|session| session.word.clone()).collect();
    for word in &words {
        std::fs::write(workspace.path().join(format!("{word}.txt")), word).unwrap();
    }
    let mut mix = IsolationRun { gateway, site, workspace: workspace.path().to_owned(), words, calls: 0 };
    while mix.calls < calls {
        // Some of the sessions, each doing something, all at once.
        random.shuffle(&mut sessions);
        let count = 1 + random.below(sessions.len());
        let steps = sessions.iter_mut().take(count).map(|session| mix.step(session, random.below(7)));
        mix.calls += all(steps).await.into_iter().sum::<usize>();
    }
    let browsers = inspect::browsers(mix.gateway.client.pid()).len();
    let slots: usize = flags.get(1).and_then(|slots| slots.parse().ok()).unwrap_or(16);
    assert_eq!(browsers, sessions.len().div_ceil(slots), "sessions are spread over the instances");
    mix.strangers_see_nothing().await;
    mix.folders_are_apart(&sessions);
    mix.gateway.end().await;
}

impl MixedSession {
    fn new(n: usize, id: String) -> Self {
        let shade = |step: usize| u8::try_from(40 + (n * step) % 200).unwrap();
        // No word is a part of another.
        let word = format!("word{n:02}x");
        Self { id, word, colour: [shade(17), shade(53), shade(97)], planted: false, folder: None }
    }
}

impl IsolationRun {
    /// One step of a session, in one or more calls. Returns how many.
    async fn step(&self, session: &mut MixedSession, what: usize) -> usize {
        match what {
            0 | 1 => self.plant(session).await,
            2 => self.show(session).await,
            3 => self.snapshot(session).await,
            4 => self.screenshot(session).await,
            5 => self.download(session).await,
            _ => self.upload(session).await,
        }
    }

    async fn plant(&self, session: &mut MixedSession) -> usize {
        let url = self.site.url(&format!("/canary?name={}", session.word));
        let answer = self.gateway.navigate(&session.id, &url).await;
        let text = self.check_own(session, &answer);
        assert!(text.contains(&format!("heading \"canary {}\"", session.word)), "not its page: {text}");
        self.evaluate(session, &settled("document.title")).await;
        session.planted = true;
        2
    }

    async fn show(&self, session: &mut MixedSession) -> usize {
        let answer = self.gateway.navigate(&session.id, &self.site.url("/show")).await;
        self.check_own(session, &answer);
        let page_text = self.evaluate(session, &settled("document.body.innerText")).await;
        let word = &session.word;
        let expected = if session.planted {
            vec![
                format!("canary={word}; canary_http={word}"),
                format!("document.cookie: canary={word}\\n"),
                format!("localStorage: {{\\\"canary\\\":\\\"{word}\\\"}}"),
                format!("sessionStorage: {{\\\"canary\\\":\\\"{word}\\\"}}"),
                format!("indexedDB: {word}"),
            ]
        } else {
            [
                "server saw: \\n",
                "document.cookie: \\n",
                "localStorage: {}",
                "sessionStorage: {}",
                "indexedDB: undefined",
            ]
            .map(str::to_owned)
            .to_vec()
        };
        for line in expected {
            assert!(page_text.contains(&line), "{word}: `{line}` is missing: {page_text}");
        }
        2
    }

    async fn snapshot(&self, session: &mut MixedSession) -> usize {
        let answer = self.gateway.call(&session.id, "browser_snapshot", json!({})).await;
        self.check_own(session, &answer);
        1
    }

    /// Paints the page in the session's colour and checks that the screenshot, as file and as image, has it.
    async fn screenshot(&self, session: &mut MixedSession) -> usize {
        let [r, g, b] = session.colour;
        let paint = format!(
            "() => {{ document.documentElement.style.background = 'rgb({r},{g},{b})'; document.body.textContent = ''; }}"
        );
        self.evaluate(session, &paint).await;
        let name = format!("shots/{}.png", session.word);
        let named = json!({ "type": "png", "filename": name });
        let answer = self.gateway.call(&session.id, "browser_take_screenshot", named).await;
        self.check_own(session, &answer);
        let file = std::fs::read(self.workspace.join(name)).unwrap();
        let answer =
            self.gateway.call(&session.id, "browser_take_screenshot", json!({ "type": "png" })).await;
        self.check_own(session, &answer);
        let parts = answer.response["result"]["content"].as_array().unwrap();
        let image = parts.iter().find(|part| part["type"] == "image").expect("a screenshot has its image");
        for picture in [&base64(&file), image["data"].as_str().unwrap()] {
            let seen = self.evaluate(session, &pixel(picture)).await;
            assert!(seen.contains(&format!("\"{r},{g},{b}\"")), "another's picture: {seen}");
        }
        5
    }

    /// All sessions give their download the same name.
    async fn download(&self, session: &mut MixedSession) -> usize {
        let word = &session.word;
        let start = format!(
            "() => {{ const a = document.createElement('a'); a.href = URL.createObjectURL(new Blob(['{word}'])); \
             a.download = 'kept.txt'; a.click(); }}"
        );
        let mut answer = self.gateway.evaluate(&session.id, &start).await;
        let mut calls = 1;
        // The first answer after the download's end has its place.
        loop {
            let text = self.check_own(session, &answer);
            if text.contains("Downloaded file kept.txt") {
                break;
            }
            assert!(calls < 100, "the download never ends: {text}");
            answer = self.gateway.evaluate(&session.id, "() => 0").await;
            calls += 1;
        }
        calls
    }

    async fn upload(&self, session: &mut MixedSession) -> usize {
        let answer = self.gateway.navigate(&session.id, &self.site.url("/upload")).await;
        self.check_own(session, &answer);
        let answer = self.gateway.call(&session.id, "browser_click", json!({ "target": "#file" })).await;
        self.check_own(session, &answer);
        let paths = json!({ "paths": [format!("{}.txt", session.word)] });
        let answer = self.gateway.call(&session.id, "browser_file_upload", paths).await;
        self.check_own(session, &answer);
        let content =
            "async () => { const [file] = document.getElementById('file').files; return await file.text(); }";
        let seen = self.evaluate(session, content).await;
        assert!(seen.contains(&format!("\"{}\"", session.word)), "another's file: {seen}");
        4
    }

    async fn evaluate(&self, session: &mut MixedSession, function: &str) -> String {
        let answer = self.gateway.evaluate(&session.id, function).await;
        self.check_own(session, &answer)
    }

    /// Checks that an answer is a success of this session and shows no other's word, nor its files.
    fn check_own(&self, session: &mut MixedSession, answer: &ToolAnswer) -> String {
        let text = answer.ok_without_restart();
        for word in self.words.iter().filter(|word| **word != session.word) {
            assert!(!text.contains(word.as_str()), "{} sees {word}: {text}", session.word);
        }
        for rest in text.split("Downloaded file kept.txt to \"").skip(1) {
            let path = PathBuf::from(rest.split('"').next().unwrap());
            assert_eq!(std::fs::read_to_string(&path).unwrap(), session.word, "another's download");
            let folder = path.ancestors().nth(2).unwrap().to_owned();
            assert_eq!(*session.folder.get_or_insert(folder.clone()), folder, "a session keeps its folder");
        }
        text
    }

    /// An unused id, however much it looks like a used one, has an empty browser.
    async fn strangers_see_nothing(&self) {
        for mut stranger in ["b", " a", "a\t", "á", "..", "/"].map(|id| MixedSession::new(99, id.to_owned()))
        {
            let answer = self.gateway.navigate(&stranger.id, &self.site.url("/show")).await;
            self.check_own(&mut stranger, &answer);
            let page_text = self.evaluate(&mut stranger, &settled("document.body.innerText")).await;
            assert!(
                page_text.contains("localStorage: {}") && page_text.contains("indexedDB: undefined"),
                "{page_text}"
            );
            self.gateway.call(&stranger.id, "session_close", json!({})).await.ok();
        }
        for no_id in [String::new(), "a".repeat(257)] {
            let arguments = json!({ "sessionId": no_id });
            let answer = ToolAnswer::new(self.gateway.client.call("browser_snapshot", arguments).await);
            answer.failed();
            assert_eq!(answer.code(), "invalid_session_id");
        }
    }

    fn folders_are_apart(&self, sessions: &[MixedSession]) {
        let mut owners = HashMap::new();
        for session in sessions {
            if let Some(folder) = &session.folder {
                assert_eq!(
                    owners.insert(folder, &session.word),
                    None,
                    "two sessions share {}",
                    folder.display()
                );
            }
        }
    }
}

/// A function that waits until the site's page has looked at all its storage, then gives an expression's value.
fn settled(expression: &str) -> String {
    format!(
        "async () => {{ const state = document.getElementById('state'); \
         while (state.textContent === 'working') await new Promise(requestAnimationFrame); return {expression}; }}"
    )
}

/// A function that decodes a picture and gives the colour in its middle.
fn pixel(base64: &str) -> String {
    format!(
        "async () => {{ const image = new Image(); image.src = 'data:image/png;base64,{base64}'; await image.decode(); \
         const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height; \
         const context = canvas.getContext('2d'); context.drawImage(image, 0, 0); \
         return [...context.getImageData(image.width / 2, image.height / 2, 1, 1).data].slice(0, 3).join(); }}"
    )
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits =
        |chunk: &[u8]| {
            let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or_default());
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            (0..4)
                .map(|n| {
                    if n > chunk.len() {
                        '='
                    } else {
                        char::from(DIGITS[(bits >> (18 - 6 * n) & 63) as usize])
                    }
                })
                .collect::<String>()
        };
    bytes.chunks(3).map(digits).collect()
}
