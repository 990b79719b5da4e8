//! Functions of the headers that cannot be done yet: each gives the interface's error, with its name.

use std::ffi::{c_int, c_uint, c_void};

use super::{
    failure::{done, failure},
    types::{Config, Handle},
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
    LITE_extra_configure(Handle, c_int);
    LITE_get_model_extra_info(Handle, Place, Place);
    LITE_use_tensorrt(Handle);
    LITE_set_async_callback(Handle, Place);
    LITE_set_async_callback_with_userdata(Handle, Place, Place);
    LITE_set_runtime_thread_affinity(Handle, Place);
    LITE_set_memory_allocator(Handle, Place, Place);
    LITE_enable_profile_performance(Handle, Place);
    LITE_enable_io_txt_dump(Handle, Place);
    LITE_enable_io_bin_dump(Handle, Place);
    LITE_get_static_memory_alloc_info(Handle, Place);
    LITE_enable_global_layout_transform(Handle);
    LITE_dump_layout_transform_model(Handle, Place);
    LITE_get_model_io_info_by_path(Place, Config, Place);
    LITE_get_model_io_info_by_memory(Place, usize, Config, Place);
    LITE_register_decryption_and_key(Place, Place, Place, usize);
    LITE_update_decryption_or_key(Place, Place, Place, usize);
    LITE_register_parse_info_func(Place, Place);
    LITE_set_loader_lib_path(Place);
    LITE_set_persistent_cache(Place, c_int);
    LITE_set_tensor_rt_cache(Place);
    LITE_dump_persistent_cache(Place);
    LITE_dump_tensor_rt_cache();
    LITE_register_memory_pair(Place, Place, usize, c_uint, c_uint);
    LITE_clear_memory_pair(Place, Place, c_uint, c_uint);
    LITE_lookup_physic_ptr(Place, Place, c_uint, c_uint);
}
