//! The real binary, the real engine, real Chromium. Pages come from loopback only.
//!
//! A test starts one greenroom and does much with it, since a browser and its engine take seconds to start. [`fixture`] starts
//! greenroom and calls it, [`inspect`] inspects its processes and ports from outside.

mod answers;
mod auto_responses;
mod browsers;
mod bulk;
mod command_line;
mod crash_browser;
mod crash_engine;
mod cross_origin;
mod demo;
mod devtools;
mod egress;
mod environment;
mod faults;
mod files;
pub mod fixture;
mod growth;
mod guard;
mod hostile_arguments;
pub mod inspect;
mod instance;
pub mod isolation;
mod limits;
mod local_programs;
mod one_slot;
mod passthrough;
mod pictures;
pub mod pool;
pub mod random;
mod recall;
mod recovery;
mod settings;
mod settle;
mod shutdown;
mod skill;
mod spares;
pub mod task;

use greenroom_testkit::{Site, case};

use self::fixture::{DataFolder, GatewayFixture};

/// One greenroom with its usual settings, one case after the other: recall, egress, files of the machine, dialogs, and odd
/// arguments. Afterwards no file of greenroom's has the password that was typed.
#[tokio::test]
async fn cases_with_default_settings() {
    let data = &DataFolder::new();
    let site = &Site::start().await;
    let started = GatewayFixture::start(data, &[]).await;
    let gateway = &started;
    case("recall::everything_is_recallable", recall::everything_is_recallable(gateway, site, data)).await;
    case(
        "recall::console_lines_are_recorded_and_imitations_ignored",
        recall::console_lines_are_recorded_and_imitations_ignored(gateway, site, data),
    )
    .await;
    case("recall::page_is_recalled_in_parts", recall::page_is_recalled_in_parts(gateway, site)).await;
    let download = recall::download_outlives_its_session(gateway, site, data);
    case("recall::download_outlives_its_session", download).await;
    case("egress::the_web_is_reached", egress::the_web_is_reached(gateway, site)).await;
    case("files::local_files_cannot_be_visited", files::local_files_cannot_be_visited(gateway, site)).await;
    case(
        "environment::dialogs_and_caches_are_apart",
        environment::dialogs_and_caches_are_apart(gateway, site),
    )
    .await;
    case(
        "settle::configured_settle_time_is_the_engines",
        settle::configured_settle_time_is_the_engines(gateway, site),
    )
    .await;
    case("hostile_arguments::error_names_the_argument", hostile_arguments::error_names_the_argument(gateway))
        .await;
    case("recall::type_a_password", recall::type_a_password(gateway, site)).await;
    started.end().await;
    recall::password_is_in_no_file(data);
}
