/* The C interface of axruntime, as its vendor documents it, over Triune: names, values and layouts are the vendor's.
 *
 * Handles are checked: one that is NULL, destroyed or of another kind gets AXR_ERROR_INVALID_ARGUMENT, and destroying it is
 * harmless. docs/c.md says who owns what, and what is Triune's own. */
#ifndef AXRUNTIME_AXRUNTIME_H
#define AXRUNTIME_AXRUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifndef AXR_EXPORT
#define AXR_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define AXR_MAX_TENSOR_DIMS 8

/* Any object of the runtime, as axr_destroy and the functions about errors take it. */
#define AXR_OBJECT(object) ((axrObject*)(object))

typedef struct axrObject axrObject;
typedef struct axrContext axrContext;
typedef struct axrConnection axrConnection;
typedef struct axrModel axrModel;
typedef struct axrModelInstance axrModelInstance;
typedef struct axrProperties axrProperties;

typedef enum axrResult {
    AXR_SUCCESS,
    AXR_ERROR_RUNTIME_ERROR,
    AXR_ERROR_VALUE_ERROR,
    AXR_ERROR_INVALID_ARGUMENT,
    AXR_ERROR_CONNECTION_ERROR,
    AXR_ERROR_DEVICE_IN_USE,
    AXR_ERROR_INCOMPATIBLE_DEVICE,
    AXR_ERROR_INVALID_CONFIGURATION,
    AXR_ERROR_NOT_IMPLEMENTED,
    AXR_ERROR_INTERNAL_ERROR,
    AXR_ERROR_PENDING_ERROR,
    AXR_ERROR_UNKNOWN_ERROR
} axrResult;

typedef enum axrLogLevel {
    AXR_LOG_TRACE,
    AXR_LOG_LOG,
    AXR_LOG_DEBUG,
    AXR_LOG_INFO,
    AXR_LOG_FIXME,
    AXR_LOG_WARNING,
    AXR_LOG_ERROR
} axrLogLevel;

/* The document gives two forms the same name, which no enumeration can have. */
typedef enum axrBoardType {
    AXR_BOARD_METIS_UNUSED1,
    AXR_BOARD_METIS_UNUSED2,
    AXR_BOARD_METIS_OMEGA_PCIE,
    AXR_BOARD_METIS_OMEGA_M2,
    AXR_BOARD_METIS_UNUSED3,
    AXR_BOARD_METIS_UNUSED4,
    AXR_BOARD_METIS_MAX
} axrBoardType;

typedef enum AXR_TENSOR_DATA_TYPE { AXR_UNSIGNED = 0, AXR_SIGNED = 1, AXR_FLOAT = 2 } AXR_TENSOR_DATA_TYPE;

/* An input or output of a run. */
typedef struct axrArgument {
    void* ptr;     /* in the program's memory, or NULL */
    int fd;        /* behind a descriptor; 0 or -1 if there is none */
    size_t offset; /* 0 */
    size_t size;   /* 0, or the tensor's bytes, which is checked */
} axrArgument;

typedef struct axrDeviceInfo {
    char name[256];
    size_t subdevice_count;
    size_t max_memory;
    int in_use;
    char in_use_by[256];
    axrBoardType board_type;
    char firmware_version[256];
    int board_revision;
    char flashed_firmware_version[256];
    char board_controller_firmware_version[256];
    char board_controller_board_type[256];
} axrDeviceInfo;

/* A model's input or output: the buffer on the card, and how reals lie in it. */
typedef struct axrTensorInfo {
    size_t dims[AXR_MAX_TENSOR_DIMS]; /* padding included */
    size_t ndims;
    size_t bits; /* of an element */
    size_t type; /* an AXR_TENSOR_DATA_TYPE */
    char name[256];
    size_t padding[AXR_MAX_TENSOR_DIMS][2]; /* elements before and after the data along each axis */
    double scale;
    int zero_point;
} axrTensorInfo;

typedef void (*axr_logger_fn)(void* arg, axrLogLevel level, const char* msg);

AXR_EXPORT unsigned int axr_api_version(void);
AXR_EXPORT const char* axr_board_type_string(axrBoardType result);
AXR_EXPORT const char* axr_error_string(axrResult result);

AXR_EXPORT axrContext* axr_create_context(void);
AXR_EXPORT void axr_destroy(const axrObject* obj);
AXR_EXPORT axrContext* axr_get_context(axrObject* obj);
AXR_EXPORT axrResult axr_last_error(const axrObject* c);
AXR_EXPORT const char* axr_last_error_string(const axrObject* c);
AXR_EXPORT void axr_set_logger(axrContext* context, axrLogLevel level, axr_logger_fn logger, void* arg);

AXR_EXPORT axrProperties* axr_create_properties(axrContext* context, const char* initial_properties);
AXR_EXPORT void axr_set_property(axrProperties* properties, const char* key, const char* value);
AXR_EXPORT const char* axr_get_property(axrProperties* properties, const char* key);
AXR_EXPORT void axr_del_property(axrProperties* properties, const char* key);
AXR_EXPORT const char* axr_list_properties(axrProperties* properties);

AXR_EXPORT size_t axr_list_devices(axrContext* context, axrDeviceInfo** devices);
AXR_EXPORT axrResult axr_configure_device(axrContext* context, axrDeviceInfo* device, axrProperties* properties);
AXR_EXPORT axrResult axr_device_ready(axrContext* context, axrDeviceInfo* device);
AXR_EXPORT axrProperties* axr_read_device_configuration(axrContext* context, axrDeviceInfo* device);
AXR_EXPORT axrConnection* axr_device_connect(
    axrContext* context, axrDeviceInfo* device, size_t num_sub_devices, axrProperties* properties);

AXR_EXPORT axrModel* axr_load_model(axrContext* context, const char* path);
AXR_EXPORT size_t axr_num_model_inputs(axrModel* model);
AXR_EXPORT size_t axr_num_model_outputs(axrModel* model);
AXR_EXPORT axrTensorInfo axr_get_model_input(axrModel* model, size_t n);
AXR_EXPORT axrTensorInfo axr_get_model_output(axrModel* model, size_t n);
AXR_EXPORT axrProperties* axr_get_model_properties(axrModel* model);
AXR_EXPORT size_t axr_tensor_size(const axrTensorInfo* info);

AXR_EXPORT axrModelInstance* axr_load_model_instance(
    axrConnection* connection, axrModel* model, axrProperties* properties);
AXR_EXPORT axrResult axr_run_model_instance(
    axrModelInstance* instance, axrArgument* inputs, size_t num_inputs, axrArgument* output, size_t num_outputs);

#ifdef __cplusplus
}
#endif

#endif
