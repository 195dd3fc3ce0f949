//! PyTorch tensors through the DLPack exchange table (`torch.Tensor.__dlpack_c_exchange_api__`): no Python call per tensor.

use std::ffi::{CStr, c_int, c_void};
use std::ptr::NonNull;

use clutch_graph::DType;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// Version of the DLPack ABI that is read here.
const MAJOR: u32 = 1;
const DEVICE_CPU: i32 = 1;

/// `DLTensor` of the DLPack ABI.
#[repr(C)]
#[derive(Debug)]
pub struct DlTensor {
    /// Start of the memory.
    pub data: *mut c_void,
    /// Kind of device; 1 is the CPU.
    pub device_type: i32,
    /// Number of the device.
    pub device_id: i32,
    /// Number of axes.
    pub ndim: i32,
    /// Kind of element.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Vector lanes; 1.
    pub lanes: u16,
    /// Sizes.
    pub shape: *mut i64,
    /// Strides in elements; null when row-major.
    pub strides: *mut i64,
    /// Offset of the first element in bytes.
    pub byte_offset: u64,
}

/// `DLManagedTensorVersioned` of the DLPack ABI.
#[repr(C)]
pub struct DlManaged {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
    flags: u64,
    tensor: DlTensor,
}

#[repr(C)]
struct Table {
    major: u32,
    minor: u32,
    previous: *mut Table,
    allocate: *const c_void,
    managed_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut *mut DlManaged) -> c_int>,
    managed_to_object: Option<unsafe extern "C" fn(*mut DlManaged, *mut *mut c_void) -> c_int>,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int>,
    current_stream: *const c_void,
}

type ManagedFromObject = unsafe extern "C" fn(*mut c_void, *mut *mut DlManaged) -> c_int;
type ManagedToObject = unsafe extern "C" fn(*mut DlManaged, *mut *mut c_void) -> c_int;
type TensorFromObject = unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int;

/// The exchange functions of this process's PyTorch.
#[derive(Clone, Copy)]
pub struct Exchange {
    managed_from_object: ManagedFromObject,
    managed_to_object: ManagedToObject,
    tensor_from_object: TensorFromObject,
}

const CAPSULE: &CStr = c"dlpack_exchange_api";

impl Exchange {
    /// The table of the installed PyTorch.
    ///
    /// # Errors
    /// When PyTorch has no exchange table or one of another major version.
    pub fn get(py: Python<'_>) -> PyResult<Exchange> {
        let tensor = py.import("torch")?.getattr("Tensor")?;
        let old = || PyRuntimeError::new_err("this PyTorch has no DLPack exchange table of version 1; Clutch needs PyTorch 2.15 or newer");
        let capsule = tensor.getattr("__dlpack_c_exchange_api__").map_err(|_| old())?;
        let capsule = capsule.cast::<PyCapsule>()?;
        let table: NonNull<c_void> = capsule.pointer_checked(Some(CAPSULE))?;
        let table = table.as_ptr() as *const Table;
        // SAFETY: a capsule of this name holds a DLPackExchangeAPI that lives as long as the process; its header is stable across versions.
        let table = unsafe { &*table };
        match (table.major, table.managed_from_object, table.managed_to_object, table.tensor_from_object) {
            (MAJOR, Some(managed_from_object), Some(managed_to_object), Some(tensor_from_object)) => {
                Ok(Exchange { managed_from_object, managed_to_object, tensor_from_object })
            }
            _ => Err(old()),
        }
    }

    /// Describes a tensor; the memory stays the tensor's.
    ///
    /// # Errors
    /// With what PyTorch raises, for example for an object that is no tensor.
    pub fn view(&self, tensor: &Bound<'_, PyAny>) -> PyResult<DlTensor> {
        let mut out = std::mem::MaybeUninit::<DlTensor>::uninit();
        // SAFETY: the argument is a live Python object and the GIL is held; the function fills `out` when it returns 0.
        let code = unsafe { (self.tensor_from_object)(tensor.as_ptr().cast(), out.as_mut_ptr()) };
        if code != 0 {
            return Err(PyErr::fetch(tensor.py()));
        }
        // SAFETY: initialised by the call above.
        Ok(unsafe { out.assume_init() })
    }

    /// Takes shared ownership of a tensor's storage.
    ///
    /// # Errors
    /// With what PyTorch raises.
    pub fn retain(&self, tensor: &Bound<'_, PyAny>) -> PyResult<Retained> {
        let mut out = std::ptr::null_mut();
        // SAFETY: as in `view`; on success `out` is an owned managed tensor.
        let code = unsafe { (self.managed_from_object)(tensor.as_ptr().cast(), &mut out) };
        match NonNull::new(out) {
            Some(managed) if code == 0 => Ok(Retained(managed)),
            _ => Err(PyErr::fetch(tensor.py())),
        }
    }

    /// A PyTorch tensor over memory that `owner` keeps alive.
    ///
    /// # Errors
    /// With what PyTorch raises; `owner` is dropped then too.
    ///
    /// # Safety
    /// `data` must point to memory that holds the described elements and stays valid and writable until `owner` is dropped.
    pub unsafe fn tensor<'py, T: Send + 'static>(
        &self,
        py: Python<'py>,
        data: *mut c_void,
        dtype: DType,
        dims: &[i64],
        strides: &[i64],
        owner: T,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (code, bits) = element_code(dtype);
        let mut shape = smallvec::SmallVec::<[i64; 12]>::new();
        shape.extend_from_slice(dims);
        shape.extend_from_slice(strides);
        let mut owned = Box::new(Owned {
            managed: DlManaged {
                major: MAJOR,
                minor: 0,
                context: std::ptr::null_mut(),
                deleter: Some(delete::<T>),
                flags: 0,
                tensor: DlTensor {
                    data,
                    device_type: DEVICE_CPU,
                    device_id: 0,
                    ndim: dims.len() as i32,
                    code,
                    bits,
                    lanes: 1,
                    shape: std::ptr::null_mut(),
                    strides: std::ptr::null_mut(),
                    byte_offset: 0,
                },
            },
            sizes: shape,
            _owner: owner,
        });
        let sizes = owned.sizes.as_mut_ptr();
        owned.managed.tensor.shape = sizes;
        // SAFETY: `sizes` holds the dims followed by the strides.
        owned.managed.tensor.strides = unsafe { sizes.add(dims.len()) };
        let raw = Box::into_raw(owned).cast::<DlManaged>();
        let mut object = std::ptr::null_mut();
        // SAFETY: `raw` starts with a DlManaged (repr(C)); PyTorch takes ownership on success, and the GIL is held.
        let result = unsafe { (self.managed_to_object)(raw, &mut object) };
        if result != 0 || object.is_null() {
            let error = PyErr::fetch(py);
            // SAFETY: not taken over, so still ours.
            unsafe { delete::<T>(raw) };
            return Err(error);
        }
        // SAFETY: an owned reference to a new tensor.
        unsafe { Bound::from_owned_ptr_or_err(py, object.cast()) }
    }

    /// Copies the bytes of a dense row-major CPU tensor.
    ///
    /// # Errors
    /// When the tensor is not in host memory or has another size.
    pub fn read_bytes(&self, tensor: &Bound<'_, PyAny>, size: usize) -> PyResult<Vec<u8>> {
        let t = self.view(tensor)?;
        if t.device_type != DEVICE_CPU || !t.is_row_major() || t.numel() as usize * usize::from(t.bits / 8) != size {
            return Err(PyRuntimeError::new_err("the tensor constant is not a dense CPU tensor"));
        }
        if size == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: a dense tensor of this many bytes, kept alive by `tensor`.
        Ok(unsafe { std::slice::from_raw_parts(t.start().cast::<u8>(), size) }.to_vec())
    }
}

#[repr(C)]
struct Owned<T> {
    managed: DlManaged,
    sizes: smallvec::SmallVec<[i64; 12]>,
    _owner: T,
}

unsafe extern "C" fn delete<T>(managed: *mut DlManaged) {
    // SAFETY: made by `Exchange::tensor` with the same T from a Box, and deleted once.
    let owned = unsafe { Box::from_raw(managed.cast::<Owned<T>>()) };
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(owned)));
}

/// Shared ownership of a tensor's storage.
pub struct Retained(NonNull<DlManaged>);

// SAFETY: a managed tensor may be deleted from any thread: PyTorch's deleter drops an intrusive reference.
unsafe impl Send for Retained {}
// SAFETY: only shared for reading its description.
unsafe impl Sync for Retained {}

impl Drop for Retained {
    fn drop(&mut self) {
        // SAFETY: owned, and deleted once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

impl DlTensor {
    /// Address of the first element.
    pub fn start(&self) -> *mut c_void {
        self.data.cast::<u8>().wrapping_add(self.byte_offset as usize).cast()
    }

    /// Whether the memory is the host's.
    pub fn on_cpu(&self) -> bool {
        self.device_type == DEVICE_CPU
    }

    /// Sizes.
    pub fn dims(&self) -> &[i64] {
        if self.ndim <= 0 || self.shape.is_null() {
            return &[];
        }
        // SAFETY: the producer gives `ndim` sizes that live as long as the tensor.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim as usize) }
    }

    /// Strides in elements; empty when the producer says row-major by leaving them out.
    pub fn strides(&self) -> &[i64] {
        if self.ndim <= 0 || self.strides.is_null() {
            return &[];
        }
        // SAFETY: as for the sizes.
        unsafe { std::slice::from_raw_parts(self.strides, self.ndim as usize) }
    }

    /// Number of elements.
    pub fn numel(&self) -> i64 {
        self.dims().iter().product()
    }

    /// The element type; `None` for types without an HLO counterpart.
    pub fn dtype(&self) -> Option<DType> {
        DType::ALL.into_iter().find(|d| element_code(*d) == (self.code, self.bits))
    }

    /// Whether elements lie dense in row-major order.
    pub fn is_row_major(&self) -> bool {
        let (dims, strides) = (self.dims(), self.strides());
        if strides.is_empty() || dims.contains(&0) {
            return true;
        }
        let mut expected = 1;
        dims.iter().zip(strides).rev().all(|(&d, &s)| {
            let fits = d == 1 || s == expected;
            expected *= d;
            fits
        })
    }
}

/// DLPack's code and bit width of an element type.
pub fn element_code(dtype: DType) -> (u8, u8) {
    match dtype {
        DType::S8 => (0, 8),
        DType::S16 => (0, 16),
        DType::S32 => (0, 32),
        DType::S64 => (0, 64),
        DType::U8 => (1, 8),
        DType::U16 => (1, 16),
        DType::U32 => (1, 32),
        DType::U64 => (1, 64),
        DType::F16 => (2, 16),
        DType::F32 => (2, 32),
        DType::F64 => (2, 64),
        DType::BF16 => (4, 16),
        DType::C64 => (5, 64),
        DType::C128 => (5, 128),
        DType::Pred => (6, 8),
        DType::F8E4M3FN => (10, 8),
        DType::F8E5M2 => (12, 8),
    }
}

const _: () = assert!(size_of::<DlTensor>() == 48);
