/* What belongs to no network: the version, the last error, ciphers, caches. */
#ifndef LITE_C_GLOBAL_H_
#define LITE_C_GLOBAL_H_

#include "macro.h"
#include "network_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef size_t (*LiteDecryptionFunc)(
    const void* input_data, size_t input_size, const uint8_t* key_data, size_t key_size, const void* output_data);
typedef int (*LiteParseInfoFunc)(
    const void* info_data, size_t info_size, const char* model_name, LiteConfig* config, LiteNetworkIO* network_io,
    int* device_id, size_t* nr_threads, int* is_cpu_inplace_mode, int* use_tensorrt);

LITE_API int LITE_get_version(int* major, int* minor, int* patch);
LITE_API ErrorCode LITE_get_last_error_code(void);
LITE_API void LITE_clear_last_error(void);
LITE_API const char* LITE_get_last_error(void);
LITE_API int LITE_get_device_count(LiteDeviceType device_type, size_t* count);
LITE_API int LITE_try_coalesce_all_free_memory(void);
LITE_API int LITE_set_log_level(LiteLogLevel level);
LITE_API int LITE_get_log_level(LiteLogLevel* level);

/* Ciphers: no function, or a key of no bytes, leaves what there is. */
LITE_API int LITE_register_decryption_and_key(
    const char* decrypt_name, const LiteDecryptionFunc func, const uint8_t* key_data, size_t key_size);
LITE_API int LITE_update_decryption_or_key(
    const char* decrypt_name, const LiteDecryptionFunc func, const uint8_t* key_data, size_t key_size);
LITE_API int LITE_register_parse_info_func(const char* info_type, const LiteParseInfoFunc parse_func);

/* Without effect on runs. */
LITE_API int LITE_set_loader_lib_path(const char* loader_path);
LITE_API int LITE_set_persistent_cache(const char* cache_path, int always_sync);
LITE_API int LITE_set_tensor_rt_cache(const char* cache_path);
LITE_API int LITE_dump_persistent_cache(const char* cache_path);
LITE_API int LITE_dump_tensor_rt_cache(void);

LITE_API int LITE_register_memory_pair(
    void* vir_ptr, void* phy_ptr, size_t length, LiteDeviceType device, LiteBackend backend);
LITE_API int LITE_clear_memory_pair(void* vir_ptr, void* phy_ptr, LiteDeviceType device, LiteBackend backend);
LITE_API int LITE_lookup_physic_ptr(void* vir_ptr, void** phy_ptr, LiteDeviceType device, LiteBackend backend);

#ifdef __cplusplus
}
#endif

#endif
