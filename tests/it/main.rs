//! The one integration binary: everything that needs a store, a server or a process of its own.
//! A store or server that is missing makes its tests fail.

#![expect(clippy::panic, reason = "a test that fails panics, in its helpers too")]

mod barrier;
mod batches;
mod cached;
mod cli;
mod cli_admin;
mod cli_postgres;
mod cli_records;
mod cli_run;
mod cli_run_crash;
mod cli_run_stuck;
mod client;
mod cluster;
mod conformance;
mod crash;
mod durability;
mod error_pages;
mod footprint;
mod kills;
mod outage;
mod policies;
mod pooler;
mod postgres;
mod postgres_cases;
mod postgres_load;
mod property;
mod protocol_table;
mod rig;
mod rpc;
mod serve;
mod sqlite;
mod switchover;
mod tls;
mod waiters;
mod wakeups;
