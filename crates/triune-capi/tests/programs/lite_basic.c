/* A model on data of a file, in the form of the vendor's example: lite_basic model in.bin out.bin [threads] */
#include "lite-c/global_c.h"
#include "lite-c/network_c.h"
#include "lite-c/tensor_c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LITE_CAPI_CHECK(_expr)                                       \
    do {                                                             \
        int _ret = (_expr);                                          \
        if (_ret) {                                                  \
            fprintf(stderr, "error msg: %s", LITE_get_last_error()); \
            return -1;                                               \
        }                                                            \
    } while (0)

static int started, finished;

static int start(const LiteIO* ios, const LiteTensor* tensors, size_t size) {
    LiteLayout layout;
    if (size != 1 || LITE_get_tensor_layout(tensors[0], &layout) || layout.ndim != ios[0].config_layout.ndim) return 1;
    ++started;
    return 0;
}

static int finish(const LiteIO* ios, const LiteTensor* tensors, size_t size, void* data) {
    (void)ios;
    (void)tensors;
    *(int*)data += (int)size;
    return 0;
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    LiteNetwork network;
    LITE_CAPI_CHECK(LITE_make_network(&network, *default_config(), *default_network_io()));
    if (argc > 4) LITE_CAPI_CHECK(LITE_set_cpu_threads_number(network, (size_t)atoi(argv[4])));
    LITE_CAPI_CHECK(LITE_set_start_callback(network, start));
    LITE_CAPI_CHECK(LITE_set_finish_callback_with_userdata(network, finish, &finished));
    LITE_CAPI_CHECK(LITE_load_model_from_path(network, argv[1]));

    const char* input_name;
    LiteTensor input;
    LITE_CAPI_CHECK(LITE_get_input_name(network, 0, &input_name));
    LITE_CAPI_CHECK(LITE_get_io_tensor(network, input_name, LITE_INPUT, &input));
    LiteLayout layout;
    LITE_CAPI_CHECK(LITE_get_tensor_layout(input, &layout));
    if (!layout.ndim) {
        layout = (LiteLayout){{3, 4}, 2, LITE_FLOAT};
        LITE_CAPI_CHECK(LITE_set_tensor_layout(input, layout));
    }
    void* from;
    size_t length;
    LITE_CAPI_CHECK(LITE_get_tensor_total_size_in_byte(input, &length));
    LITE_CAPI_CHECK(LITE_get_tensor_memory(input, &from));
    FILE* file = fopen(argv[2], "rb");
    if (!file || fread(from, 1, length, file) != length) return 3;
    fclose(file);

    LITE_CAPI_CHECK(LITE_forward(network));
    LITE_CAPI_CHECK(LITE_wait(network));
    LITE_CAPI_CHECK(LITE_wait(network));

    const char* output_name;
    LiteTensor output;
    LITE_CAPI_CHECK(LITE_get_output_name(network, 0, &output_name));
    LITE_CAPI_CHECK(LITE_get_io_tensor(network, output_name, LITE_IO, &output));
    void* to;
    LITE_CAPI_CHECK(LITE_get_tensor_memory(output, &to));
    LITE_CAPI_CHECK(LITE_get_tensor_total_size_in_byte(output, &length));
    file = fopen(argv[3], "wb");
    if (!file || fwrite(to, 1, length, file) != length) return 3;
    fclose(file);

    /* The same weights in another network, on memory of the program's, and the model from memory. */
    LiteNetwork other;
    LITE_CAPI_CHECK(LITE_make_default_network(&other));
    LITE_CAPI_CHECK(LITE_shared_weight_with_network(other, network));
    LiteTensor second, result;
    LITE_CAPI_CHECK(LITE_get_io_tensor(other, input_name, LITE_INPUT, &second));
    LITE_CAPI_CHECK(LITE_get_io_tensor(other, output_name, LITE_OUTPUT, &result));
    LITE_CAPI_CHECK(LITE_tensor_share_memory_with(second, input));
    LITE_CAPI_CHECK(LITE_get_tensor_layout(output, &layout));
    void* mine = malloc(length);
    LITE_CAPI_CHECK(LITE_reset_tensor(result, layout, mine));
    LITE_CAPI_CHECK(LITE_forward(other));
    LITE_CAPI_CHECK(LITE_wait(other));
    int same = !memcmp(mine, to, length);
    LITE_CAPI_CHECK(LITE_destroy_network(other));
    free(mine);
    LITE_CAPI_CHECK(LITE_destroy_network(network));
    printf("%d %d %d", same, started, finished);
    return 0;
}
