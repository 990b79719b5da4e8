/* The enumerations of lite-c, with MegEngine Lite's names and values. */
#ifndef LITE_COMMON_ENUM_C_H_
#define LITE_COMMON_ENUM_C_H_

typedef enum { DEBUG = 0, INFO = 1, WARN = 2, ERROR = 3 } LiteLogLevel;

typedef enum { OK = 0, LITE_INTERNAL_ERROR = 1, LITE_UNKNOWN_ERROR = 2 } ErrorCode;

typedef enum { LITE_DEFAULT = 0, LITE_RK_NPU = 1 } LiteBackend;

typedef enum {
    LITE_CPU = 0,
    LITE_CUDA = 1,
    LITE_ATLAS = 3,
    LITE_NPU = 4,
    LITE_CAMBRICON = 5,
    LITE_AX = 6,
    LITE_DEVICE_DEFAULT = 7
} LiteDeviceType;

typedef enum {
    LITE_FLOAT = 0,
    LITE_HALF = 1,
    LITE_INT = 2,
    LITE_INT16 = 3,
    LITE_INT8 = 4,
    LITE_UINT8 = 5,
    LITE_UINT = 6,
    LITE_UINT16 = 7,
    LITE_INT64 = 8
} LiteDataType;

typedef enum { LITE_IO = 0, LITE_INPUT = 1, LITE_OUTPUT = 2 } LiteTensorPhase;

typedef enum { LITE_IO_VALUE = 0, LITE_IO_SHAPE = 1 } LiteIOType;

typedef enum {
    LITE_ALGO_HEURISTIC = 1 << 0,
    LITE_ALGO_PROFILE = 1 << 1,
    LITE_ALGO_REPRODUCIBLE = 1 << 2,
    LITE_ALGO_OPTIMIZED = 1 << 3
} LiteAlgoSelectStrategy;

#endif
