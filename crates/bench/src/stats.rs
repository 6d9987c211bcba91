//! Arithmetic over samples.

use std::time::Duration;

/// The value below which `percent` of the samples lie. The order of `samples` does not matter.
pub fn percentile(samples: &[f64], percent: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index in the list")]
    let at = (percent / 100.0 * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 50.0)
}

pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

pub fn least(samples: &[f64]) -> f64 {
    percentile(samples, 0.0)
}

pub fn greatest(samples: &[f64]) -> f64 {
    percentile(samples, 100.0)
}

pub fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Bytes as megabytes of 10^6 bytes, the unit of the goals.
pub fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
