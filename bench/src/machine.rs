//! What the numbers were measured on. Absolute rates mean nothing without it.

use std::fs::{File, read_to_string, remove_file};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::yardstick::Yardstick;

const PROBE: Duration = Duration::from_millis(500);

/// The facts, in the order in which they are shown.
#[derive(Debug)]
pub(crate) struct Machine(Vec<(&'static str, String)>);

impl Machine {
    /// Looks at the machine while nothing of the run is at work.
    pub(crate) async fn look(yardstick: &Yardstick, folder: &Path) -> anyhow::Result<Self> {
        let server = yardstick.facts().await?;
        let flushes = flushes(folder).await?;
        Ok(Self(vec![
            ("when", server.now),
            ("cores", std::thread::available_parallelism()?.to_string()),
            ("processor", processor()),
            ("kernel", kernel()),
            ("postgres", server.version),
            ("load average before", load_average()),
            ("flushes of 8 KiB before", flushes),
        ]))
    }

    /// Adds what is known only after the run.
    pub(crate) async fn finish(&mut self, folder: &Path) -> anyhow::Result<()> {
        self.0.push(("load average after", load_average()));
        let flushes = flushes(folder).await?;
        self.0.push(("flushes of 8 KiB after", flushes));
        Ok(())
    }

    pub(crate) fn facts(&self) -> &[(&'static str, String)] {
        &self.0
    }

    pub(crate) fn json(&self) -> Value {
        let facts = self.0.iter();
        facts.map(|(name, fact)| (*name, json!(fact))).collect()
    }
}

fn first_line(path: &str) -> String {
    let text = read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// Its version, without what its builder calls it.
fn kernel() -> String {
    let release = first_line("/proc/sys/kernel/osrelease");
    let version = release.split('-').next().unwrap_or_default();
    version.to_owned()
}

fn processor() -> String {
    let text = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let model = lines.find(|(name, _)| name.trim() == "model name");
    model.map_or("unknown".to_owned(), |(_, model)| model.trim().to_owned())
}

/// Of the last minute, five and fifteen.
fn load_average() -> String {
    let line = first_line("/proc/loadavg");
    line.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// How long the disk takes to keep a page of a write-ahead log for good, one after the other.
async fn flushes(folder: &Path) -> anyhow::Result<String> {
    let file = folder.join("flush-probe");
    tokio::task::spawn_blocking(move || flushes_to(&file)).await?
}

fn flushes_to(path: &Path) -> anyhow::Result<String> {
    let page = [0x5a; 8192];
    let mut file = File::create(path)?;
    file.write_all(&page)?;
    file.sync_all()?;
    let begun = Instant::now();
    let mut spans = Vec::new();
    while begun.elapsed() < PROBE {
        let asked = Instant::now();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&page)?;
        file.sync_data()?;
        spans.push(asked.elapsed());
    }
    let rate = f64::from(u32::try_from(spans.len())?) / begun.elapsed().as_secs_f64();
    remove_file(path)?;
    spans.sort_unstable();
    let median = spans.get(spans.len() / 2).copied().unwrap_or_default();
    let median_ms = median.as_secs_f64() * 1000.0;
    Ok(format!("{rate:.0} per second, median {median_ms:.2} ms"))
}
