//! The function table.

use crate::handle::{self, function};
use crate::{buffer, client, control, event, executable, topology};
use clutch_pjrt::abi::{self, Api, named_value_type};
use std::mem::offset_of;

function!(plugin_initialize(_args: PluginInitializeArgs) {
    Ok(())
});

/// The one attribute, static as the interface wants.
struct Attributes([abi::NamedValue; 1]);

// SAFETY: the pointers in it are to static text.
unsafe impl Sync for Attributes {}

static ATTRIBUTES: Attributes = Attributes({
    let mut entry = abi::NamedValue::new();
    entry.name = c"clutch_fake".as_ptr();
    entry.name_size = 11;
    entry.type_ = named_value_type::BOOL;
    entry.value.bool_value = true;
    entry.value_size = 1;
    [entry]
});

function!(plugin_attributes(args: PluginAttributesArgs) {
    args.attributes = ATTRIBUTES.0.as_ptr();
    args.num_attributes = ATTRIBUTES.0.len();
    Ok(())
});

fn full() -> Api {
    // SAFETY: the table is integers and optional function pointers, for which zero bytes are a value.
    let mut api: Api = unsafe { std::mem::zeroed() };
    api.pjrt_api_version = abi::ApiVersion::new();
    macro_rules! fill {
        ($($slot:ident = $function:path,)*) => { $(api.$slot = Some($function);)* };
    }
    fill! {
        PJRT_Error_Destroy = handle::error_destroy,
        PJRT_Error_Message = handle::error_message,
        PJRT_Error_GetCode = handle::error_get_code,
        PJRT_Plugin_Initialize = plugin_initialize,
        PJRT_Plugin_Attributes = plugin_attributes,
        PJRT_Event_Destroy = event::event_destroy,
        PJRT_Event_IsReady = event::event_is_ready,
        PJRT_Event_Error = event::event_error,
        PJRT_Event_Await = event::event_await,
        PJRT_Event_OnReady = event::event_on_ready,
        PJRT_Client_Create = client::client_create,
        PJRT_Client_Destroy = client::client_destroy,
        PJRT_Client_PlatformName = client::client_platform_name,
        PJRT_Client_PlatformVersion = client::client_platform_version,
        PJRT_Client_AddressableDevices = client::client_addressable_devices,
        PJRT_Client_Compile = executable::client_compile,
        PJRT_Client_BufferFromHostBuffer = buffer::client_buffer_from_host_buffer,
        PJRT_DeviceDescription_Id = client::device_description_id,
        PJRT_DeviceDescription_Attributes = client::device_description_attributes,
        PJRT_DeviceDescription_Kind = client::device_description_kind,
        PJRT_DeviceDescription_ToString = client::device_description_to_string,
        PJRT_Device_GetDescription = client::device_get_description,
        PJRT_Device_LocalHardwareId = client::device_local_hardware_id,
        PJRT_Device_MemoryStats = client::device_memory_stats,
        PJRT_Executable_Destroy = executable::executable_destroy,
        PJRT_Executable_Name = executable::executable_name,
        PJRT_Executable_NumReplicas = executable::executable_num_replicas,
        PJRT_Executable_NumPartitions = executable::executable_num_partitions,
        PJRT_Executable_NumOutputs = executable::executable_num_outputs,
        PJRT_Executable_SizeOfGeneratedCodeInBytes = executable::executable_size_of_generated_code,
        PJRT_Executable_GetCostAnalysis = executable::executable_get_cost_analysis,
        PJRT_Executable_OptimizedProgram = executable::executable_optimized_program,
        PJRT_Executable_Serialize = executable::executable_serialize,
        PJRT_Executable_OutputElementTypes = executable::executable_output_element_types,
        PJRT_Executable_OutputDimensions = executable::executable_output_dimensions,
        PJRT_Executable_Fingerprint = executable::executable_fingerprint,
        PJRT_Executable_GetCompiledMemoryStats = executable::executable_get_compiled_memory_stats,
        PJRT_Executable_DeserializeAndLoad = executable::executable_deserialize_and_load,
        PJRT_LoadedExecutable_Destroy = executable::loaded_executable_destroy,
        PJRT_LoadedExecutable_GetExecutable = executable::loaded_executable_get_executable,
        PJRT_LoadedExecutable_Delete = executable::loaded_executable_delete,
        PJRT_LoadedExecutable_IsDeleted = executable::loaded_executable_is_deleted,
        PJRT_LoadedExecutable_Execute = executable::loaded_executable_execute,
        PJRT_Buffer_Destroy = buffer::buffer_destroy,
        PJRT_Buffer_ElementType = buffer::buffer_element_type,
        PJRT_Buffer_Dimensions = buffer::buffer_dimensions,
        PJRT_Buffer_OnDeviceSizeInBytes = buffer::buffer_on_device_size,
        PJRT_Buffer_Delete = buffer::buffer_delete,
        PJRT_Buffer_IsDeleted = buffer::buffer_is_deleted,
        PJRT_Buffer_ToHostBuffer = buffer::buffer_to_host_buffer,
        PJRT_Buffer_IsOnCpu = buffer::buffer_is_on_cpu,
        PJRT_Buffer_ReadyEvent = buffer::buffer_ready_event,
        PJRT_Buffer_UnsafePointer = buffer::buffer_unsafe_pointer,
        PJRT_Buffer_IncreaseExternalReferenceCount = buffer::buffer_increase_external_reference_count,
        PJRT_Buffer_DecreaseExternalReferenceCount = buffer::buffer_decrease_external_reference_count,
        PJRT_TopologyDescription_Create = topology::topology_create,
        PJRT_TopologyDescription_Destroy = topology::topology_destroy,
        PJRT_TopologyDescription_PlatformName = topology::topology_platform_name,
        PJRT_TopologyDescription_PlatformVersion = topology::topology_platform_version,
        PJRT_TopologyDescription_GetDeviceDescriptions = topology::topology_get_device_descriptions,
        PJRT_TopologyDescription_Serialize = topology::topology_serialize,
        PJRT_TopologyDescription_Attributes = topology::topology_attributes,
        PJRT_TopologyDescription_Fingerprint = topology::topology_fingerprint,
        PJRT_Compile = executable::compile_for_topology,
    }
    api
}

/// Entry point of the plugin. Each call makes a table anew, with the settings of [`crate::control`].
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name is the interface's")]
pub extern "C" fn GetPjrtApi() -> *const Api {
    let mut api = full();
    let (missing, size) = control::with_state(|state| (state.missing.clone(), state.table_size.unwrap_or(size_of::<Api>())));
    api.struct_size = size;
    (api.pjrt_api_version.major_version, api.pjrt_api_version.minor_version) = control::api_version();
    for name in missing {
        if let Some((_, offset)) = Api::SLOTS.iter().find(|(slot, _)| *slot == name) {
            debug_assert!(*offset >= offset_of!(Api, PJRT_Error_Destroy));
            // SAFETY: the offset is that of a pointer slot of the table.
            unsafe { (&raw mut api).byte_add(*offset).cast::<*const ()>().write(std::ptr::null()) };
        }
    }
    Box::leak(Box::new(api))
}
