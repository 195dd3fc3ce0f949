//! The hot path allocates nothing of its own.

mod support;

use clutch_pjrt::{Buffer, Client, CompileOptions, ElementType, ExecuteScratch, ProgramFormat};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use support::{hlo, on_each_cpu_plugin};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: forwards to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: forwarded.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[repr(align(64))]
struct Aligned([f32; 16]);

#[test]
fn executing_allocates_nothing() {
    on_each_cpu_plugin(|client: &Client| {
        let executable = client.compile(&hlo::add(&[16]), ProgramFormat::Hlo, &CompileOptions::default()).unwrap();
        let host = Aligned([1.0; 16]);
        let device = client.default_device();
        let mut scratch = ExecuteScratch::default();
        let mut outputs = Vec::new();
        let mut step = || {
            // SAFETY: the array outlives the buffer and the execution.
            let input = unsafe { Buffer::from_host_zero_copy(device, host.0.as_ptr().cast(), &[16], ElementType::F32) }.unwrap();
            executable.execute([&input, &input], &[1], &mut scratch, &mut outputs).unwrap();
            assert_eq!(outputs[0].host_view().unwrap().bytes()[..4], 2.0_f32.to_ne_bytes());
        };
        step();
        let before = ALLOCATIONS.with(Cell::get);
        for _ in 0..10 {
            step();
        }
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
    });
}
