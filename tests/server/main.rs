//! The HTTPS server over real sockets, and its certificates. What needs a process of its own (its log,
//! its threads, its signals) is beside this folder.

#[path = "../support/mod.rs"]
mod support;

mod background;
mod body;
mod certs;
mod client_certificate;
mod crowds;
mod http;
mod limits;
mod tls;
