//! Logs: warnings to standard error, more by `CLUTCH_LOG`.

use std::sync::Once;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::time::uptime;

/// Levels of detail.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts logging, once a process.
///
/// `CLUTCH_LOG` holds a level (`info`) or `tracing` directives (`clutch=debug,clutch_cache=trace`); `warn` when it is not set.
/// `CLUTCH_LOG_FORMAT=json` writes one JSON object a line. Gives what is wrong with the variable, if something is.
pub fn start() -> Option<String> {
    static START: Once = Once::new();
    let mut complaint = None;
    START.call_once(|| {
        let wanted = std::env::var("CLUTCH_LOG").unwrap_or_default();
        let format = std::env::var("CLUTCH_LOG_FORMAT").unwrap_or_default();
        let filter = EnvFilter::try_new(if wanted.is_empty() { "warn" } else { &wanted }).unwrap_or_else(|error| {
            complaint = Some(format!("CLUTCH_LOG={wanted} is not understood ({error}); accepted: a level such as info, or clutch=debug"));
            EnvFilter::new("warn")
        });
        let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_timer(uptime()).with_ansi(false);
        // Another subscriber in the process keeps its place.
        let _ = if format == "json" { logs.json().try_init() } else { logs.try_init() };
        if !matches!(format.as_str(), "" | "text" | "json") {
            complaint = Some(format!("CLUTCH_LOG_FORMAT={format} is not understood; accepted: text, json"));
        }
        let level = wanted.split(['=', ',']).next_back().unwrap_or_default();
        if !wanted.is_empty() && complaint.is_none() && !LEVELS.contains(&level.to_ascii_lowercase().as_str()) {
            complaint = Some(format!("CLUTCH_LOG={wanted} ends in no level; accepted: {}", LEVELS.join(", ")));
        }
    });
    complaint
}
