//! Topologies: any name; `family:AxB` has A times B devices, other names one.

use crate::client::{bytes, device};
use crate::control;
use crate::handle::{Kind, borrow, export, free, function};
use clutch_pjrt::abi;

struct Topology {
    name: String,
    platform_name: String,
    platform_version: String,
    devices: Vec<usize>,
}

function!(topology_create(args: TopologyDescriptionCreateArgs) {
    // SAFETY: the caller passes a name of the size stated.
    let name = String::from_utf8_lossy(unsafe { bytes(args.topology_name, args.topology_name_size) }).into_owned();
    let sizes = name.split_once(':').map_or("", |(_, sizes)| sizes);
    let count: usize = sizes.split('x').map(|size| size.parse().unwrap_or(1)).product();
    args.topology = export(Kind::Topology, Topology {
        name,
        platform_name: control::platform_name(),
        platform_version: control::platform_version(),
        devices: vec![device::<abi::DeviceDescription>().expose_provenance(); count],
    });
    Ok(())
});

function!(topology_destroy(args: TopologyDescriptionDestroyArgs) {
    // SAFETY: topologies are exported.
    unsafe { free::<Topology, _>(args.topology) };
    Ok(())
});

function!(topology_platform_name(args: TopologyDescriptionPlatformNameArgs) {
    // SAFETY: topologies are exported.
    let topology = unsafe { borrow::<Topology, _>(args.topology) }?;
    args.platform_name = topology.platform_name.as_ptr().cast();
    args.platform_name_size = topology.platform_name.len();
    Ok(())
});

function!(topology_platform_version(args: TopologyDescriptionPlatformVersionArgs) {
    // SAFETY: topologies are exported.
    let topology = unsafe { borrow::<Topology, _>(args.topology) }?;
    args.platform_version = topology.platform_version.as_ptr().cast();
    args.platform_version_size = topology.platform_version.len();
    Ok(())
});

function!(topology_get_device_descriptions(args: TopologyDescriptionGetDeviceDescriptionsArgs) {
    // SAFETY: topologies are exported.
    let topology = unsafe { borrow::<Topology, _>(args.topology) }?;
    args.descriptions = topology.devices.as_ptr().cast();
    args.num_descriptions = topology.devices.len();
    Ok(())
});

unsafe extern "C" fn free_serialized(serialized: *mut abi::SerializedTopology) {
    // SAFETY: the handle is the exported bytes.
    unsafe { free::<Vec<u8>, _>(serialized) };
}

function!(topology_serialize(args: TopologyDescriptionSerializeArgs) {
    // SAFETY: topologies are exported.
    let serialized = unsafe { borrow::<Topology, _>(args.topology) }?.name.clone().into_bytes();
    args.serialized_bytes = serialized.as_ptr().cast();
    args.serialized_bytes_size = serialized.len();
    args.serialized_topology = export(Kind::Serialized, serialized);
    args.serialized_topology_deleter = Some(free_serialized);
    Ok(())
});

function!(topology_attributes(args: TopologyDescriptionAttributesArgs) {
    args.attributes = std::ptr::null();
    args.num_attributes = 0;
    Ok(())
});

function!(topology_fingerprint(args: TopologyDescriptionFingerprintArgs) {
    // SAFETY: topologies are exported.
    let topology = unsafe { borrow::<Topology, _>(args.topology) }?;
    args.fingerprint = topology.name.bytes().fold(17, |hash, byte| hash * 31 + u64::from(byte) % 257);
    Ok(())
});
