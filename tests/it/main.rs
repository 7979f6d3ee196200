//! The one integration binary: everything that needs a store, a server or a process of its own.
//! A store or server that is missing makes its tests fail.

mod postgres;
mod sqlite;
