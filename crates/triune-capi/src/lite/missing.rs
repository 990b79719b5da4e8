//! Functions of the headers that cannot be done yet: each gives the interface's error, with its name.

use std::ffi::{c_int, c_void};

use super::{
    failure::{done, failure},
    types::Handle,
};

type Place = *const c_void;

macro_rules! missing {
    ($($name:ident($($kind:ty),*);)+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`: not implemented.")]
            #[unsafe(no_mangle)]
            pub(crate) extern "C" fn $name($(_: $kind),*) -> c_int {
                done(|| Err(failure(concat!("not implemented: ", stringify!($name)))))
            }
        )+
    };
}

missing! {
    LITE_get_discrete_tensor(Handle, Place, usize, c_int, Place);
    LITE_set_memory_allocator(Handle, Place, Place);
    LITE_enable_profile_performance(Handle, Place);
    LITE_enable_io_txt_dump(Handle, Place);
    LITE_enable_io_bin_dump(Handle, Place);
    LITE_get_static_memory_alloc_info(Handle, Place);
}
