//! The client and its one device.

use crate::control;
use crate::executable::Executable;
use crate::handle::{Failure, Kind, borrow, export, free, function};
use clutch_pjrt::{ErrorCode, abi};

/// A client. Its address is also that of its device and of the device's description.
pub(crate) struct Client {
    platform_name: String,
    platform_version: String,
    devices: [usize; 1],
}

/// The one device; a static, so that its description outlives every client and topology.
static DEVICE: u64 = 0;
pub(crate) const DEVICE_KIND: &str = "fake";
const DEVICE_TEXT: &str = "FakeDevice(id=0)";

pub(crate) fn device<H>() -> *mut H {
    (&raw const DEVICE).cast_mut().cast()
}

function!(client_create(args: ClientCreateArgs) {
    args.client = export(Kind::Client, Client {
        platform_name: control::platform_name(),
        platform_version: control::platform_version(),
        devices: [device::<abi::Device>().expose_provenance()],
    });
    Ok(())
});

function!(client_destroy(args: ClientDestroyArgs) {
    // SAFETY: clients are exported.
    unsafe { free::<Client, _>(args.client) };
    Ok(())
});

function!(client_platform_name(args: ClientPlatformNameArgs) {
    // SAFETY: clients are exported.
    let client = unsafe { borrow::<Client, _>(args.client) }?;
    args.platform_name = client.platform_name.as_ptr().cast();
    args.platform_name_size = client.platform_name.len();
    Ok(())
});

function!(client_platform_version(args: ClientPlatformVersionArgs) {
    // SAFETY: clients are exported.
    let client = unsafe { borrow::<Client, _>(args.client) }?;
    args.platform_version = client.platform_version.as_ptr().cast();
    args.platform_version_size = client.platform_version.len();
    Ok(())
});

function!(client_addressable_devices(args: ClientAddressableDevicesArgs) {
    // SAFETY: clients are exported.
    let client = unsafe { borrow::<Client, _>(args.client) }?;
    args.addressable_devices = client.devices.as_ptr().cast();
    args.num_addressable_devices = client.devices.len();
    Ok(())
});

function!(device_get_description(args: DeviceGetDescriptionArgs) {
    args.device_description = device();
    Ok(())
});

function!(device_local_hardware_id(args: DeviceLocalHardwareIdArgs) {
    args.local_hardware_id = 0;
    Ok(())
});

function!(device_memory_stats(args: DeviceMemoryStatsArgs) {
    args.bytes_in_use = crate::buffer::bytes_in_use();
    args.bytes_limit = 1 << 34;
    args.bytes_limit_is_set = true;
    args.peak_bytes_in_use_is_set = false;
    Ok(())
});

function!(device_description_id(args: DeviceDescriptionIdArgs) {
    args.id = 0;
    Ok(())
});

function!(device_description_kind(args: DeviceDescriptionKindArgs) {
    args.device_kind = DEVICE_KIND.as_ptr().cast();
    args.device_kind_size = DEVICE_KIND.len();
    Ok(())
});

function!(device_description_to_string(args: DeviceDescriptionToStringArgs) {
    args.to_string = DEVICE_TEXT.as_ptr().cast();
    args.to_string_size = DEVICE_TEXT.len();
    Ok(())
});

function!(device_description_attributes(args: DeviceDescriptionAttributesArgs) {
    args.attributes = std::ptr::null();
    args.num_attributes = 0;
    Ok(())
});

/// Reads and checks the program of a compile call.
///
/// # Safety
/// The program and the options are valid for the sizes stated.
pub(crate) unsafe fn compile(
    program: *const abi::Program,
    options: *const std::ffi::c_char,
    options_size: usize,
) -> Result<Executable, Failure> {
    // SAFETY: forwarded to the caller.
    let (code, format, options) = unsafe {
        let program = program.as_ref().ok_or_else(|| Failure::invalid("no program"))?;
        (bytes(program.code, program.code_size), bytes(program.format, program.format_size), bytes(options, options_size))
    };
    if options.is_empty() {
        return Err(Failure::invalid("no compile options"));
    }
    if format != b"hlo" {
        let format = String::from_utf8_lossy(format);
        return Err(Failure::new(ErrorCode::Unimplemented, &format!("the fake plugin takes hlo only, not {format}")));
    }
    control::delay();
    Executable::compile(code, options)
}

/// # Safety
/// `data` is null or valid for `size` bytes during `'a`.
pub(crate) unsafe fn bytes<'a>(data: *const std::ffi::c_char, size: usize) -> &'a [u8] {
    if data.is_null() || size == 0 {
        return &[];
    }
    // SAFETY: forwarded to the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), size) }
}
