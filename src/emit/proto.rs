//! The HLO messages, generated from `proto/hlo.proto`.

#![allow(missing_docs, clippy::all, clippy::pedantic)]

include!(concat!(env!("OUT_DIR"), "/hlo.rs"));
