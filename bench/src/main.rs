//! Measures Oncegate beside what a user would pick instead, in one run on one machine. `bench/run`
//! builds it, starts what it needs and hands it over in `ONCEGATE_BENCH_…` variables.

mod gate;
mod keys;
mod machine;
mod matrix;
mod measure;
mod report;
mod rig;
mod server;
mod targets;
mod work;
mod yardstick;

use std::env::{args, var};
use std::io::{Write, stderr, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use crate::machine::Machine;
use crate::matrix::{Cell, cells};
use crate::report::Report;
use crate::rig::Rig;
use crate::server::{Places, settings};

/// The server's own: neither side of a comparison pays for the other's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The load must not take more of the machine than it has to.
const THREADS: usize = 2;
const ROUNDS: usize = 5;
const QUICK: Duration = Duration::from_millis(1_500);
const FULL: Duration = Duration::from_secs(6);

/// What is to be measured, and for how long in each round.
struct Plan {
    cells: Vec<Cell>,
    length: Duration,
}

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let plan = match arguments[..] {
        ["list"] => return list(),
        ["quick"] => Plan {
            cells: cells(false),
            length: QUICK,
        },
        ["full"] => Plan {
            cells: cells(true),
            length: FULL,
        },
        ["one", name] => one(name)?,
        _ => bail!("quick, full, one SCENARIO, or list"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        // So that a profile tells them from the server's.
        .thread_name("oncegate-bench")
        .enable_all()
        .build()?;
    let report = runtime.block_on(run(plan))?;
    write!(stdout(), "{}", report.text())?;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/last.json");
    std::fs::write(file, format!("{:#}\n", report.json()))?;
    Ok(())
}

fn list() -> anyhow::Result<()> {
    for cell in cells(true) {
        writeln!(stdout(), "{cell}")?;
    }
    Ok(())
}

fn one(name: &str) -> anyhow::Result<Plan> {
    let mut cells = cells(true);
    cells.retain(|cell| cell.is_called(name));
    ensure!(!cells.is_empty(), "there is no scenario {name}: see `list`");
    Ok(Plan {
        cells,
        length: QUICK,
    })
}

/// Round by round, every cell once in each, so that whatever else the machine does meets all.
async fn run(plan: Plan) -> anyhow::Result<Report> {
    let places = places()?;
    let mut missing = Vec::new();
    let mut cells = plan.cells;
    cells.retain(|cell| match settings(cell.subject, &places) {
        Ok(_) => true,
        Err(reason) => {
            missing.push(format!("{cell}: {reason}"));
            false
        }
    });
    let mut rig = Rig::start(&cells, &places).await?;
    let mut machine = Machine::look(rig.yardstick(), &places.folder).await?;
    let mut cells: Vec<_> = cells.into_iter().map(|cell| (cell, Vec::new())).collect();
    for number in 1..=ROUNDS {
        writeln!(stderr(), "round {number} of {ROUNDS}")?;
        for (cell, rounds) in &mut cells {
            let figures = rig.measure(*cell, plan.length).await;
            rounds.push(figures.with_context(|| cell.to_string())?);
        }
    }
    machine.finish(&places.folder).await?;
    Ok(Report {
        machine,
        length: plan.length,
        cells,
        missing,
    })
}

fn places() -> anyhow::Result<Places> {
    let needed = |name| var(name).with_context(|| format!("{name} is unset: use bench/run"));
    Ok(Places {
        postgres: needed("ONCEGATE_BENCH_POSTGRES")?,
        redis: var("ONCEGATE_BENCH_REDIS").ok(),
        folder: PathBuf::from(needed("ONCEGATE_BENCH_FOLDER")?),
    })
}
