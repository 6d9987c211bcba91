//! Invariants of every answer of `browser_pool_status`.

use serde_json::Value;

/// The figures of one pool with this many instances of one slot add up, for the pool and for the sum of all, and each
/// instance is described without contradiction.
#[track_caller]
pub fn status(status: &Value, total: usize) {
    let pool = &status["pools"][0];
    let instances = pool["instances"].as_array().unwrap_or_else(|| panic!("no instances: {status}"));
    let count = |is: &dyn Fn(&Value) -> bool| instances.iter().filter(|instance| is(instance)).count();
    let is = |wanted: &'static str| move |instance: &Value| instance["status"] == wanted;
    let is_leased = |instance: &Value| instance["leased"] == true;
    let healthy = count(&is("healthy"));
    assert_eq!(healthy + count(&is("failed")) + count(&is("starting")), total, "{status}");
    for (figure, expected) in [
        ("total_instances", total),
        ("healthy_instances", healthy),
        ("leased_instances", count(&is_leased)),
        ("available_instances", count(&|instance| is("healthy")(instance) && !is_leased(instance))),
    ] {
        assert_eq!(pool[figure], expected, "{figure}: {status}");
        assert_eq!(status["summary"][figure], expected, "{figure}: {status}");
    }
    assert_eq!(status["summary"]["failed_instances"], count(&is("failed")), "{status}");
    for (number, instance) in instances.iter().enumerate() {
        assert_eq!(instance["id"], number.to_string(), "{status}");
        check_instance(instance);
    }
}

#[track_caller]
fn check_instance(instance: &Value) {
    let leased = instance["leased"] == true;
    let healthy = instance["status"] == "healthy";
    assert_eq!(
        (&instance["slots"], &instance["leased_slots"]),
        (&1.into(), &usize::from(leased).into()),
        "{instance}"
    );
    for field in ["lease_duration_ms", "lease_started_at"] {
        assert_eq!(instance[field].is_null(), !leased, "{field}: {instance}");
    }
    assert!(healthy || !leased, "an instance that does not run is leased: {instance}");
    assert_eq!(instance["process_id"].is_u64(), healthy, "{instance}");
    if instance["status"] == "failed" {
        assert!(instance["health_check"]["error"].is_string(), "failed without a reason: {instance}");
    }
}
