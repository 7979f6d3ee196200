//! The one integration binary: everything that needs a store, a server or a process of its own.
