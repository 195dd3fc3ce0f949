//! Writes graphs and programs for people to read (`CLUTCH_DUMP_DIR`).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Writes graph and program to numbered files in `dir`, which is made when missing. A failure is logged and harms nothing.
pub fn write(dir: &Path, role: &str, graph_text: &str, hlo_text: &str) {
    write_files(dir, role, &[("graph.txt", graph_text), ("hlo.txt", hlo_text)]);
}

/// Writes a graph that is not emitted as it stands.
pub fn write_graph(dir: &Path, role: &str, graph_text: &str) {
    write_files(dir, role, &[("graph.txt", graph_text)]);
}

fn write_files(dir: &Path, role: &str, files: &[(&str, &str)]) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let stem = format!("{:04}-{}-{role}", number, std::process::id());
    let write = |(ending, text): &(&str, &str)| std::fs::write(dir.join(format!("{stem}.{ending}")), text);
    let result = std::fs::create_dir_all(dir).and_then(|()| files.iter().try_for_each(write));
    if let Err(error) = result {
        tracing::warn!(dir = %dir.display(), %error, "cannot write the dump");
    }
}
