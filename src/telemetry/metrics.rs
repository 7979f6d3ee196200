//! Every metric's name, unit and labels. Labels are bounded: operations, verdicts, and the first
//! namespaces that come by; never a key or an account.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Encoder, TextEncoder};
use tokio::time::Instant;

/// Namespaces with a label of their own; all further ones share `other`.
const NAMESPACES_MAX: usize = 200;
/// From well below a cached answer to the longest wait.
const LATENCY_SECONDS: [f64; 16] = [
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
    10.0, 30.0,
];

/// The metrics of one server.
#[derive(Debug)]
pub struct Metrics {
    registry: prometheus::Registry,
    provider: SdkMeterProvider,
    namespaces: Mutex<HashSet<Arc<str>>>,
    verdicts: Counter<u64>,
    not_compared: Counter<u64>,
    divergences: Counter<u64>,
    rpc_seconds: Histogram<f64>,
    shed: Counter<u64>,
    swept: Counter<u64>,
    sweep_seconds: Gauge<f64>,
    certificates_changed: Counter<u64>,
    waiting: Gauge<u64>,
    ready: Gauge<u64>,
}

impl Metrics {
    /// All at zero; what belongs to a namespace appears at zero with the namespace.
    ///
    /// # Errors
    ///
    /// A metric's name is not usable; a defect of this file.
    pub fn new() -> anyhow::Result<Self> {
        let registry = prometheus::Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .scope_info_enabled(false)
            .without_target_info()
            .build()?;
        let provider = SdkMeterProvider::builder().with_reader(exporter).build();
        let meter = provider.meter("oncegate");
        let counter = |name: &'static str, about: &'static str| {
            meter.u64_counter(name).with_description(about).build()
        };
        let metrics = Self {
            verdicts: counter(
                "oncegate_verdicts",
                "Answers by operation, verdict and namespace",
            ),
            not_compared: counter(
                "oncegate_fingerprints_not_compared",
                "Reserves whose fingerprint was missing on one side or of another scheme",
            ),
            divergences: counter(
                "oncegate_divergences",
                "Reports of another outcome or effect id than the one known under a key",
            ),
            rpc_seconds: meter
                .f64_histogram("oncegate_rpc_duration")
                .with_unit("s")
                .with_description("Time from a call's arrival to its answer, by method and code")
                .with_boundaries(LATENCY_SECONDS.to_vec())
                .build(),
            shed: counter(
                "oncegate_shed_calls",
                "Calls refused because too many were at work, by method",
            ),
            swept: counter(
                "oncegate_swept",
                "Records that the sweeper buried or deleted",
            ),
            sweep_seconds: meter
                .f64_gauge("oncegate_sweep_duration")
                .with_unit("s")
                .with_description("How long the last sweep that came to its end took")
                .build(),
            certificates_changed: counter(
                "oncegate_certificate_changes",
                "Changes of the files of the server's certificate, by whether they could be used",
            ),
            waiting: meter
                .u64_gauge("oncegate_waiting_calls")
                .with_description("Calls that wait for a running holder")
                .build(),
            ready: meter
                .u64_gauge("oncegate_ready")
                .with_description("Whether the store can be used: 1 or 0")
                .build(),
            namespaces: Mutex::default(),
            registry,
            provider,
        };
        metrics.swept(0, 0);
        for result in ["used", "refused"] {
            metrics
                .certificates_changed
                .add(0, &[KeyValue::new("result", result)]);
        }
        Ok(metrics)
    }

    /// Counts an answer.
    pub fn verdict(&self, operation: &'static str, verdict: &'static str, namespace: &str) {
        let labels = [
            KeyValue::new("operation", operation),
            KeyValue::new("verdict", verdict),
            self.namespace(namespace),
        ];
        self.verdicts.add(1, &labels);
    }

    /// Counts a fingerprint that could not be compared.
    pub fn fingerprint_not_compared(&self, namespace: &str) {
        self.not_compared.add(1, &[self.namespace(namespace)]);
    }

    /// Shows how often a cache was of use: what `results` counts, each by its name.
    pub fn watch_cache<const N: usize>(
        &self,
        results: impl Fn() -> [(&'static str, u64); N] + Send + Sync + 'static,
    ) {
        // The provider keeps the callback.
        let _counter = self
            .provider
            .meter("oncegate")
            .u64_observable_counter("oncegate_cache_lookups")
            .with_description("Reserves that a cache was asked about, by what it knew")
            .with_callback(move |seen| {
                for (result, count) in results() {
                    seen.observe(count, &[KeyValue::new("result", result)]);
                }
            })
            .build();
    }

    /// Shows whether Redis is there.
    pub fn watch_redis(&self, is_up: impl Fn() -> bool + Send + Sync + 'static) {
        // The provider keeps the callback.
        let _gauge = self
            .provider
            .meter("oncegate")
            .u64_observable_gauge("oncegate_redis_up")
            .with_description("Whether Redis answers and is heard: 1 or 0")
            .with_callback(move |seen| seen.observe(u64::from(is_up()), &[]))
            .build();
    }

    /// Counts a report of another outcome or effect id.
    pub fn divergence(&self, namespace: &str) {
        self.divergences.add(1, &[self.namespace(namespace)]);
    }

    /// Times a call.
    pub fn rpc(&self, method: Arc<str>, code: &'static str, took: Duration) {
        let labels = [KeyValue::new("method", method), KeyValue::new("code", code)];
        self.rpc_seconds.record(took.as_secs_f64(), &labels);
    }

    /// Counts a call that was refused because too many were at work.
    pub fn shed(&self, method: Arc<str>) {
        self.shed.add(1, &[KeyValue::new("method", method)]);
    }

    /// Counts what a sweep did.
    pub fn swept(&self, buried: u32, deleted: u32) {
        let label = |what: &'static str| [KeyValue::new("done", what)];
        self.swept.add(buried.into(), &label("buried"));
        self.swept.add(deleted.into(), &label("deleted"));
    }

    /// Times a sweep that came to its end.
    pub fn sweep_took(&self, started: Instant) {
        self.sweep_seconds
            .record(started.elapsed().as_secs_f64(), &[]);
    }

    /// Counts a change of the server's certificate: `used` or `refused`.
    pub fn certificate_changed(&self, result: &'static str) {
        let label = KeyValue::new("result", result);
        self.certificates_changed.add(1, &[label]);
    }

    /// Shows how many calls wait.
    pub fn waiting(&self, calls: usize) {
        self.waiting
            .record(u64::try_from(calls).unwrap_or(u64::MAX), &[]);
    }

    /// Shows whether the store can be used.
    pub fn ready(&self, ready: bool) {
        self.ready.record(u64::from(ready), &[]);
    }

    /// All metrics in the text form that Prometheus reads.
    ///
    /// # Errors
    ///
    /// The text could not be written; a defect.
    pub fn text(&self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8(text)?)
    }

    fn namespace(&self, name: &str) -> KeyValue {
        let mut known = self
            .namespaces
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(name) {
            return KeyValue::new("namespace", Arc::clone(known));
        }
        if known.len() >= NAMESPACES_MAX {
            return KeyValue::new("namespace", "other");
        }
        let own: Arc<str> = name.into();
        known.insert(Arc::clone(&own));
        let label = KeyValue::new("namespace", own);
        // So that the first one is seen to rise.
        for counter in [&self.divergences, &self.not_compared] {
            counter.add(0, std::slice::from_ref(&label));
        }
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_s_counters_stand_at_zero_before_they_rise() {
        let metrics = Metrics::new().expect("usable names");
        metrics.verdict("reserve", "granted", "terminal");
        let text = metrics.text().expect("text");
        for counter in ["oncegate_divergences", "oncegate_fingerprints_not_compared"] {
            let line = format!("{counter}_total{{namespace=\"terminal\"}} 0");
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    #[test]
    fn every_metric_is_in_the_operators_table() {
        let own = include_str!("metrics.rs");
        let named = |text: &&str| {
            text.strip_prefix("oncegate_")
                .is_some_and(|rest| !rest.is_empty())
        };
        let names: Vec<&str> = own.split('"').filter(named).collect();
        assert!(!names.is_empty());
        for name in names {
            let row = format!("| `{name}");
            let page = include_str!("../../docs/operations.md");
            assert!(page.contains(&row), "docs/operations.md lacks {name}");
        }
    }
}
