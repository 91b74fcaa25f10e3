//! The device that multiplies quantized matrices: the processor, or the first GPU with the feature `cuda` or `metal`.
//!
//! Matrices lie on the device; inputs and outputs of a product are copied, and everything else is computed on the
//! processor. Without a GPU nothing here is tested.

use candle_core::Device;

use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// The device of this build, opened once.
///
/// # Errors
/// [`TrainError::Compute`] if the build is for a GPU and none can be opened.
#[cfg(any(feature = "cuda", all(feature = "metal", target_os = "macos")))]
pub(crate) fn of_products() -> Result<Device> {
    use std::sync::OnceLock;

    static DEVICE: OnceLock<std::result::Result<Device, String>> = OnceLock::new();
    let open = || {
        #[cfg(feature = "cuda")]
        let device = Device::new_cuda(0);
        #[cfg(all(feature = "metal", not(feature = "cuda")))]
        let device = Device::new_metal(0);
        device.map_err(|error| error.to_string())
    };
    let opened = DEVICE.get_or_init(open).clone();
    opened.map_err(|error| TrainError::Compute { what: "a GPU to be opened", source: error.into() })
}

/// The device of this build, opened once.
#[cfg(not(any(feature = "cuda", all(feature = "metal", target_os = "macos"))))]
#[expect(clippy::unnecessary_wraps, reason = "opening a GPU can fail")]
pub(crate) fn of_products() -> Result<Device> {
    Ok(Device::Cpu)
}
