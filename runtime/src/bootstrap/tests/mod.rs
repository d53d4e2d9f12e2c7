//! Tests of the bootstrap server: what it keeps, its routes as a whole server, and its two users.

mod asking;
mod registry;
mod routes;
mod support;
