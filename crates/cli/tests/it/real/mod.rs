//! The real binary, the real engine, real Chromium. Pages come from loopback only.
//!
//! A test starts one greenroom and does much with it, since a browser and its engine take seconds to start. [`house`] starts
//! greenroom and calls it, [`look`] inspects its processes and ports from outside.

mod answers;
mod auto_responses;
mod beside;
mod browsers;
mod bulk;
mod crash_browser;
mod crash_engine;
mod demo;
mod devtools;
mod egress;
mod faults;
mod files;
mod growth;
mod hostile_arguments;
pub mod house;
mod instance;
pub mod isolation;
pub mod look;
mod other_sites;
pub mod pool;
pub mod random;
mod recall;
mod recovery;
mod settings;
mod settle;
mod shutdown;
mod single;
mod spares;
mod surroundings;
mod task;

use greenroom_testkit::{Site, case};

use self::house::{Data, GatewayFixture};

/// One greenroom with its usual settings, one case after the other: recall, egress, files of the machine, dialogs, and odd
/// arguments. Afterwards no file of it has the password that was typed.
#[tokio::test]
async fn with_usual_settings() {
    let (data, site) = (&Data::new(), &Site::start().await);
    let started = GatewayFixture::start(data, &[]).await;
    let house = &started;
    case("recall::everything_is_recallable", recall::everything_is_recallable(house, site, data)).await;
    case("recall::lines_and_imitations", recall::lines_and_imitations(house, site, data)).await;
    case("recall::pages_of_a_page", recall::pages_of_a_page(house, site)).await;
    let download = recall::a_download_outlives_its_session(house, site, data);
    case("recall::a_download_outlives_its_session", download).await;
    let web = egress::the_web_is_reached_and_metadata_is_not(house, site);
    case("egress::the_web_is_reached_and_metadata_is_not", web).await;
    case("files::local_files_cannot_be_visited", files::local_files_cannot_be_visited(house, site)).await;
    case(
        "surroundings::dialogs_and_caches_are_apart",
        surroundings::dialogs_and_caches_are_apart(house, site),
    )
    .await;
    case("settle::a_set_time_is_the_engines", settle::a_set_time_is_the_engines(house, site)).await;
    case("hostile_arguments::the_place_is_told", hostile_arguments::the_place_is_told(house)).await;
    case("recall::type_a_password", recall::type_a_password(house, site)).await;
    started.end().await;
    recall::a_password_is_nowhere(data);
}
