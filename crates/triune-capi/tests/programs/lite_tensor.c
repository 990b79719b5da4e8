/* Tensors by themselves, and what is wrong: a line for each error. */
#include "lite-c/global_c.h"

#include <stdio.h>
#include <string.h>

#define CHECK(_expr)                                                              \
    do {                                                                          \
        if (!(_expr)) {                                                           \
            printf("%d: %s: %s\n", __LINE__, #_expr, LITE_get_last_error());      \
            return 1;                                                             \
        }                                                                         \
    } while (0)
#define WRONG(_expr)                              \
    do {                                          \
        CHECK((_expr) != 0);                      \
        printf("%s\n", LITE_get_last_error());    \
    } while (0)

int main(void) {
    CHECK(!LITE_get_last_error_code() && !*LITE_get_last_error());
    int major = 0, minor = 0, patch = -1;
    CHECK(!LITE_get_version(&major, &minor, &patch) && major == 1 && minor == 13 && patch == 0);
    CHECK(default_config()->options.graph_opt_level == default_option.graph_opt_level);
    CHECK(default_option.var_sanity_check_first_run == 1 && default_option.async_exec_level == 1);
    CHECK(default_io.is_host == 1 && !default_layout.ndim && !default_network_io()->input_size);

    LiteTensorDesc desc = default_desc;
    desc.layout = (LiteLayout){{4, 6}, 2, LITE_INT};
    LiteTensor tensor, part, copy, joined;
    CHECK(!LITE_make_tensor(desc, &tensor));
    int* data;
    CHECK(!LITE_get_tensor_memory(tensor, (void**)&data));
    CHECK(data[23] == 0 && (size_t)data % 64 == 0);
    for (int n = 0; n < 24; ++n) data[n] = n;

    size_t start[] = {1, 1}, end[] = {4, 9}, step[] = {2, 2};
    CHECK(!LITE_tensor_slice(tensor, start, end, step, 2, &part));
    int dense = 1;
    CHECK(!LITE_is_memory_continue(part, &dense) && !dense);
    LiteLayout layout;
    CHECK(!LITE_get_tensor_layout(part, &layout) && layout.ndim == 2 && layout.shapes[0] == 2 && layout.shapes[1] == 3);
    CHECK(!LITE_make_tensor(default_desc, &copy) && !LITE_tensor_copy(copy, part));
    int* copied;
    CHECK(!LITE_get_tensor_memory(copy, (void**)&copied));
    const int expected[] = {7, 9, 11, 19, 21, 23};
    CHECK(!memcmp(copied, expected, sizeof expected));
    /* The slice outlives its tensor, and writes to the same memory. */
    size_t at[] = {1, 2};
    int* element;
    CHECK(!LITE_get_tensor_memory_with_index(part, at, 2, (void**)&element) && element == data + 23);
    CHECK(!LITE_tensor_fill_zero(part) && data[23] == 0 && data[22] == 22);
    CHECK(!LITE_destroy_tensor(tensor) && !LITE_destroy_tensor(tensor) && *element == 0);
    WRONG(LITE_get_tensor_memory(tensor, (void**)&data));
    WRONG(LITE_set_tensor_layout(part, (LiteLayout){{9}, 1, LITE_INT}));

    LiteTensor both[] = {copy, copy};
    CHECK(!LITE_tensor_concat(both, 2, 1, LITE_DEVICE_DEFAULT, -1, &joined));
    CHECK(!LITE_get_tensor_memory(joined, (void**)&data));
    const int twice[] = {7, 9, 11, 7, 9, 11, 19, 21, 23, 19, 21, 23};
    CHECK(!memcmp(data, twice, sizeof twice));
    int shape[] = {3, -1};
    CHECK(!LITE_tensor_reshape(joined, shape, 2));
    CHECK(!LITE_get_tensor_layout(joined, &layout) && layout.shapes[1] == 4);
    shape[0] = 5;
    WRONG(LITE_tensor_reshape(joined, shape, 2));
    WRONG(LITE_reset_tensor_memory(joined, shape, sizeof shape));
    WRONG(LITE_get_tensor_layout(NULL, &layout));
    WRONG(LITE_get_tensor_layout(joined, NULL));
    desc.device_type = LITE_CUDA;
    WRONG(LITE_make_tensor(desc, &tensor));

    LiteNetwork network;
    CHECK(!LITE_make_default_network(&network));
    WRONG(LITE_forward(network));
    WRONG(LITE_load_model_from_path(network, "gone.mge"));
    WRONG(LITE_load_model_from_mem(network, "packed_model", 12));
    WRONG(LITE_set_cpu_threads_number(network, 0));
    WRONG(LITE_forward(part));
    CHECK(LITE_get_last_error_code() == LITE_INTERNAL_ERROR);
    LITE_clear_last_error();
    CHECK(LITE_get_last_error_code() == OK);
    CHECK(!LITE_destroy_network(network) && !LITE_destroy_network(network));
    WRONG(LITE_wait(network));
    CHECK(!LITE_destroy_tensor(part) && !LITE_destroy_tensor(copy) && !LITE_destroy_tensor(joined));
    return 0;
}
