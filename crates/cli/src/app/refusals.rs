//! Reports connections that the network policy refused: to the log, the audit log and the metrics.

use std::sync::Arc;

use greenroom_core::{
    audit::{Audit, AuditEvent},
    port::{RefusalReport, RefusalSink},
    printable::printable,
};
use greenroom_gateway::Metrics;

pub struct ReportedRefusals {
    pub audit: Option<Arc<dyn Audit>>,
    pub metrics: Arc<Metrics>,
}

impl RefusalSink for ReportedRefusals {
    fn refused(&self, report: RefusalReport<'_>) {
        let RefusalReport { pool, user, refused, is_new } = report;
        self.metrics.network_refused(pool.unwrap_or_default(), refused.reason.word());
        if let Some(audit) = &self.audit {
            audit.report(AuditEvent::refusal(pool, user, refused));
        }
        // The other two count a page that repeats its request without end; the log has only lines.
        if is_new {
            let owner = user.map(|user| user.owner.to_string());
            let session = user.and_then(|user| user.session.as_ref()).map(ToString::to_string);
            let refusal = refused.to_string();
            tracing::info!(owner, session, pool, refusal = %printable(&refusal), "refused a connection");
        }
    }
}
