//! What the services need of the outside: a store that carries out whole operations.

pub mod clock;
pub mod store;
