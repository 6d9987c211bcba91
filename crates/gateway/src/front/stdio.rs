//! The stdio front: one process, one connection.

use std::{collections::HashSet, sync::Arc};

use greenroom_core::{ApiScopes, ConnectionId, Owner};
use greenroom_mcp::stdio::Stdio;
use tokio_util::sync::CancellationToken;

use super::lines;
use crate::{
    Gateway,
    connection::{ClientLocation, NewClient},
};

/// Serves the one client of this process.
pub async fn serve(gateway: Arc<Gateway>, stdio: Stdio, stop: CancellationToken) {
    let location = ClientLocation::Local { folder: gateway.folder.clone() };
    let client = NewClient {
        id: ConnectionId(1),
        owner: Owner::local(),
        scopes: ApiScopes::all(),
        location,
        first_question: 1,
        lost: HashSet::new(),
    };
    lines::serve(gateway, stdio, client, stop).await;
}
