//! Time a tiny program takes per call: `execute_overhead PLUGIN.so`.

#[path = "../tests/support/hlo.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod hlo;

use clutch_pjrt::{Buffer, Client, CompileOptions, ElementType, ExecuteScratch, Plugin, ProgramFormat, Result};
use std::time::Instant;

#[repr(align(64))]
struct Aligned([f32; 16]);

/// Best of several rounds, in nanoseconds a call.
fn time(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    const CALLS: u32 = 20_000;
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    Ok(best)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: execute_overhead PLUGIN.so")?;
    let plugin = Plugin::load(path)?;
    let client = Client::create(&plugin, &Client::cpu_options())?;
    let executable = client.compile(&hlo::add(&[16]), ProgramFormat::Hlo, &CompileOptions::default())?;
    let device = client.default_device();
    let host = Aligned([1.0; 16]);
    // SAFETY: the array outlives every buffer over it.
    let input = || unsafe { Buffer::from_host_zero_copy(device, host.0.as_ptr().cast(), &[16], ElementType::F32) };
    let resident = input()?;
    let (mut scratch, mut outputs) = (ExecuteScratch::default(), Vec::new());

    println!(
        "execute + wait + free outputs          {:7.0} ns",
        time(|| { executable.execute([&resident, &resident], &[], &mut scratch, &mut outputs) })?
    );
    println!("zero-copy input made and freed         {:7.0} ns", time(|| input().map(drop))?);
    println!(
        "2 zero-copy inputs + execute + 1 view  {:7.0} ns",
        time(|| {
            let (a, b) = (input()?, input()?);
            executable.execute([&a, &b], &[], &mut scratch, &mut outputs)?;
            outputs[0].host_view().map(drop)
        })?
    );
    println!("view of an output                      {:7.0} ns", time(|| outputs[0].host_view().map(drop))?);
    Ok(())
}
