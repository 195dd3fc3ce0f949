//! Writes graphs and programs for people to read (`CLUTCH_DUMP_DIR`).

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Writes the two texts to numbered files in `dir`, which is made when missing. A failure is logged and harms nothing.
pub fn write(dir: &Path, role: &str, graph_text: &str, hlo_text: &str) {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let stem = format!("{:04}-{}-{role}", number, std::process::id());
    let result = std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(dir.join(format!("{stem}.graph.txt")), graph_text))
        .and_then(|()| std::fs::write(dir.join(format!("{stem}.hlo.txt")), hlo_text));
    if let Err(error) = result {
        tracing::warn!(dir = %dir.display(), %error, "cannot write the dump");
    }
}
