//! Options of the engine take effect on real pages, in a browser that greenroom started.

use std::{fs, path::PathBuf};

use greenroom_core::settings::{Codegen, ColorScheme, Geolocation, ImageResponses, Permission, Pool};
use greenroom_engine::EngineOptions;
use greenroom_testkit::Site;
use serde_json::json;

use super::{GRACE, InstanceFixture, TestSeat};

/// Cookies, HttpOnly ones too, and local storage of a storage state are in every new context.
#[tokio::test]
async fn storage_state_is_in_every_new_context() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let state = fixture.path("state.json");
    let cookie = |name: &str, http_only: bool| {
        json!({ "name": name, "value": "yes", "domain": "127.0.0.1", "path": "/", "expires": -1,
                "httpOnly": http_only, "secure": false, "sameSite": "Lax" })
    };
    let text = json!({
        "cookies": [cookie("plain", false), cookie("hidden", true)],
        "origins": [{ "origin": site.base(), "localStorage": [{ "name": "stored", "value": "yes" }] }],
    });
    fs::write(&state, text.to_string()).unwrap();
    let mut options = fixture.options();
    options.pool.storage_state = Some(state.clone());
    options.pool.slots = 2;
    let instance = fixture.start(options.clone()).await;
    for _ in 0..2 {
        let mut seat = TestSeat::open(&instance).await;
        seat.navigate(&site.url("/show")).await.unwrap();
        let shown = seat.evaluate("() => document.body.innerText").await;
        assert!(shown.contains("plain=yes") && shown.contains("hidden=yes"), "{shown}");
        assert!(seat.evaluate("() => localStorage.getItem('stored')").await.contains("\"yes\""));
        // The next seat does not see what one seat changes.
        seat.evaluate("() => { document.cookie = 'plain=no'; }").await;
        seat.close().await;
    }
    instance.stop(GRACE).await;

    fs::write(&state, "{").unwrap();
    let refused = fixture.try_start(options.clone()).await.err().unwrap();
    assert!(
        refused.message.starts_with("this is no storage state") && refused.message.contains("state.json")
    );
    fs::remove_file(&state).unwrap();
    let refused = fixture.try_start(options).await.err().unwrap();
    assert!(refused.message.starts_with("cannot read the storage state"), "{refused}");
}

/// Init scripts run before a page's own, origins are allowed and blocked, images are left out, a session is recorded, and
/// all of a seat's files stay in the output folder.
#[tokio::test]
async fn init_scripts_origins_and_output_folder_apply() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let blocked = Site::start().await;
    let unlisted = Site::start().await;
    let scripts: Vec<PathBuf> = ["one.js", "two.js"].iter().map(|name| fixture.path(name)).collect();
    for (n, script) in scripts.iter().enumerate() {
        fs::write(script, format!("window.marks = [...(window.marks ?? []), {n}];")).unwrap();
    }
    let output = fixture.path("output");
    let plain = fixture.options();
    let pool = Pool {
        init_script: scripts.clone(),
        allowed_origins: vec![site.base(), blocked.base()],
        blocked_origins: vec![blocked.base()],
        image_responses: ImageResponses::Omit,
        save_session: true,
        output_dir: Some(output.clone()),
        ..plain.pool.clone()
    };
    let options = EngineOptions { pool, ..plain };
    let instance = fixture.start(options.clone()).await;
    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title?t=allowed")).await.unwrap();
    assert!(seat.evaluate("() => marks.join()").await.contains("\"0,1\""));
    for (name, refused) in [("blocked", &blocked), ("not listed", &unlisted)] {
        let url = refused.url("/title");
        let fetch =
            format!("() => fetch('{url}', {{ mode: 'no-cors' }}).then(() => 'came', () => 'refused')");
        let answer = seat.evaluate(&fetch).await;
        assert!(answer.contains("\"refused\""), "{name}: {answer}");
    }
    let error = seat.navigate(&blocked.url("/title")).await.unwrap_err();
    assert!(error.contains("ERR_BLOCKED_BY_CLIENT"), "{error}");
    assert_eq!((blocked.requests().len(), unlisted.requests().len()), (0, 0));
    // The browser's own page about the refusal may still be loading, and no screenshot can be taken of it then.
    seat.navigate(&site.url("/title?t=allowed")).await.unwrap();
    let (answer, _) = seat.answer("browser_take_screenshot", json!({})).await;
    let kinds: Vec<_> = answer["content"].as_array().unwrap().iter().map(|part| &part["type"]).collect();
    assert_eq!(kinds, ["text"]);
    assert_ne!(answer["isError"], true, "{answer}");
    seat.close().await;
    let second = TestSeat::open(&instance).await;
    second.close().await;
    instance.stop(GRACE).await;

    let seats: Vec<_> = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(seats.len(), 2, "a folder each");
    let files: Vec<String> = seats.iter().flat_map(|seat| files(seat)).collect();
    let screenshot = files.iter().find(|file| file.ends_with(".png")).expect("the screenshot stays");
    assert!(fs::read(screenshot).unwrap().starts_with(b"\x89PNG"));
    let logs =
        files.iter().filter(|file| file.ends_with(".md")).map(|file| fs::read_to_string(file).unwrap());
    let location: Vec<_> = logs.filter(|log| log.contains("browser_take_screenshot")).collect();
    assert_eq!(location.len(), 1, "the first session is written down: {files:?}");

    fs::remove_file(&scripts[1]).unwrap();
    let refused = fixture.try_start(options).await.err().unwrap();
    assert!(
        refused.message.starts_with("no such init script") && refused.message.contains("two.js"),
        "{refused}"
    );
}

/// A device is emulated in contexts of a browser that greenroom started, with its own language, time zone, location and
/// colour scheme. Secrets are replaced by their names in answers, and code is shown in another language, or not at all.
#[tokio::test]
async fn device_is_emulated_and_secrets_are_replaced() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let secrets = fixture.path("secrets");
    fs::write(&secrets, "WORD=rosebud\n").unwrap();
    let plain = fixture.options();
    let pool = Pool {
        device: Some("iPhone 15".into()),
        locale: Some("de-CH".into()),
        timezone: Some("Asia/Tokyo".into()),
        geolocation: Geolocation::new(47.5, 8.5),
        permissions: vec![Permission::Geolocation],
        color_scheme: Some(ColorScheme::Dark),
        bypass_csp: true,
        test_id_attribute: Some("data-qa".into()),
        snapshot_boxes: true,
        codegen: Codegen::Python,
        secrets_file: Some(secrets.clone()),
        browser_args: vec!["--disable-features=Nothing".into(), "--js-flags=--expose-gc".into()],
        ..plain.pool.clone()
    };
    let options = EngineOptions { pool, ..plain };
    let instance = fixture.start(options).await;
    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title")).await.unwrap();
    let shown = seat.evaluate("() => [screen.width, devicePixelRatio, navigator.userAgent].join()").await;
    assert!(shown.contains("\"393,3,") && shown.contains("iPhone"), "{shown}");
    let location = "() => new Promise((done, failed) => navigator.geolocation.getCurrentPosition(done, failed)).then(place => \
                [navigator.language, Intl.DateTimeFormat().resolvedOptions().timeZone, place.coords.latitude, \
                matchMedia('(prefers-color-scheme: dark)').matches, typeof gc].join())";
    let location = seat.evaluate(location).await;
    assert!(location.contains("\"de-CH,Asia/Tokyo,47.5,true,function\""), "{location}");
    let evaluated = seat.evaluate("() => 'rose' + 'bud'").await;
    assert!(evaluated.contains("<secret>WORD</secret>") && !evaluated.contains("rosebud"), "{evaluated}");
    seat.evaluate("() => { document.body.innerHTML = '<button data-qa=go>Go</button>'; }").await;
    let (answer, _) = seat.answer("browser_click", json!({ "target": "getByTestId('go')" })).await;
    let answer = answer["content"][0]["text"].as_str().unwrap();
    assert!(answer.contains("page.get_by_test_id(\"go\").click()"), "{answer}");
    let (answer, _) = seat.answer("browser_snapshot", json!({})).await;
    assert!(answer["content"][0]["text"].as_str().unwrap().contains("[box="), "{answer}");
    seat.close().await;
    instance.stop(GRACE).await;
}

/// All files below a folder.
fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path.display().to_string()] })
        .collect()
}
