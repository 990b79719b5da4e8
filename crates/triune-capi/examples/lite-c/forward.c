/* Runs a model on ones and says what each output's first element is: forward model.mge */
#include <stdio.h>
#include <string.h>

#include "lite-c/global_c.h"

#define CHECK(call)                                        \
    do {                                                   \
        if (call) {                                        \
            fprintf(stderr, "%s\n", LITE_get_last_error()); \
            return 1;                                      \
        }                                                  \
    } while (0)

int main(int argc, char** argv) {
    LiteNetwork network;
    CHECK(LITE_make_default_network(&network));
    CHECK(LITE_load_model_from_path(network, argc > 1 ? argv[1] : "model.mge"));
    size_t count = 0;
    CHECK(LITE_get_all_input_name(network, &count, NULL));
    for (size_t n = 0; n < count; ++n) {
        const char* name;
        LiteTensor tensor;
        LiteLayout layout;
        void* data;
        size_t bytes;
        CHECK(LITE_get_input_name(network, n, &name));
        CHECK(LITE_get_io_tensor(network, name, LITE_INPUT, &tensor));
        CHECK(LITE_get_tensor_memory(tensor, &data));
        CHECK(LITE_get_tensor_total_size_in_byte(tensor, &bytes));
        CHECK(LITE_get_tensor_layout(tensor, &layout));
        if (layout.data_type != LITE_FLOAT) memset(data, 1, bytes);
        for (size_t k = 0; layout.data_type == LITE_FLOAT && k < bytes / sizeof(float); ++k) ((float*)data)[k] = 1;
    }
    CHECK(LITE_forward(network));
    CHECK(LITE_wait(network));
    CHECK(LITE_get_all_output_name(network, &count, NULL));
    for (size_t n = 0; n < count; ++n) {
        const char* name;
        LiteTensor tensor;
        LiteLayout layout;
        void* data;
        CHECK(LITE_get_output_name(network, n, &name));
        CHECK(LITE_get_io_tensor(network, name, LITE_OUTPUT, &tensor));
        CHECK(LITE_get_tensor_layout(tensor, &layout));
        CHECK(LITE_get_tensor_memory(tensor, &data));
        if (layout.data_type == LITE_FLOAT) printf("%s %f\n", name, ((float*)data)[0]);
    }
    CHECK(LITE_destroy_network(network));
    return 0;
}
