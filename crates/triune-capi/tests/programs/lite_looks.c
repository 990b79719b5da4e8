/* What a network lets one look at, and whose memory it computes in: lite_looks model sums */
#define _GNU_SOURCE
#include "lite-c/global_c.h"
#include "lite-c/network_c.h"
#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static LiteTensor tensor(LiteNetwork network, LiteTensorPhase phase) {
    const char* name;
    LiteTensor found;
    CHECK(!(phase == LITE_INPUT ? LITE_get_input_name : LITE_get_output_name)(network, 0, &name));
    CHECK(!LITE_get_io_tensor(network, name, phase, &found));
    return found;
}

static float* memory(LiteTensor of) {
    void* found;
    CHECK(!LITE_get_tensor_memory(of, &found));
    return found;
}

static size_t size(LiteTensor of) {
    size_t bytes;
    CHECK(!LITE_get_tensor_total_size_in_byte(of, &bytes));
    return bytes;
}

static void fill(float* at, size_t first, size_t count) {
    for (size_t n = 0; n < count; ++n) at[n] = (float)((first + n) * 7 % 13) - 5;
}

static void run(LiteNetwork network) { CHECK(!LITE_forward(network) && !LITE_wait(network)); }

/* An allocator that knows what it gave. */
static struct { void* at; size_t size; int device; } given[16];
static int allocated, freed, empty;

static void* allocate(LiteDeviceType device, int id, size_t bytes, size_t align) {
    CHECK(device == LITE_CPU && align >= 16 && !(align & (align - 1)) && allocated < 16);
    if (empty) return NULL;
    void* at = aligned_alloc(align, (bytes + align - 1) / align * align);
    memset(at, 0xff, bytes);
    given[allocated].at = at;
    given[allocated].size = bytes;
    given[allocated++].device = id;
    return at;
}

static void release(LiteDeviceType device, int id, void* at) {
    CHECK(device == LITE_CPU);
    for (int n = 0; n < allocated; ++n)
        if (given[n].at == at && given[n].device == id) {
            given[n].at = NULL;
            ++freed;
            free(at);
            return;
        }
    CHECK(!"memory of the allocator's");
}

static int never(void) { return 0; }

int main(int argc, char** argv) {
    CHECK(argc == 3);
    LiteNetwork network;

    /* Looking inside, which can be asked for before there is a model. */
    CHECK(!LITE_make_default_network(&network));
    WRONG(LITE_get_static_memory_alloc_info(network, "plan"));
    WRONG(LITE_enable_profile_performance(network, NULL));
    WRONG(LITE_enable_io_txt_dump(network, "gone/all.txt"));
    WRONG(LITE_enable_io_bin_dump(network, "gone"));
    CHECK(!LITE_enable_profile_performance(network, "profile.json"));
    CHECK(!LITE_enable_io_bin_dump(network, "."));
    CHECK(!LITE_load_model_from_path(network, argv[1]));
    CHECK(!LITE_enable_io_txt_dump(network, "all.txt"));
    WRONG(LITE_get_static_memory_alloc_info(network, argv[1]));
    CHECK(!LITE_get_static_memory_alloc_info(network, "plan/deep"));
    LiteTensor input = tensor(network, LITE_INPUT), output = tensor(network, LITE_OUTPUT);
    fill(memory(input), 0, size(input) / sizeof(float));
    run(network);
    size_t bytes = size(output);
    float* wanted = malloc(bytes);
    memcpy(wanted, memory(output), bytes);
    CHECK(!LITE_destroy_network(network));

    /* Memory of the program's allocator. */
    CHECK(!LITE_make_default_network(&network) && !LITE_set_device_id(network, 3));
    WRONG(LITE_set_memory_allocator(network, NULL, release));
    WRONG(LITE_set_memory_allocator(network, allocate, NULL));
    CHECK(!LITE_set_memory_allocator(network, allocate, release) && !LITE_load_model_from_path(network, argv[1]));
    WRONG(LITE_set_memory_allocator(network, allocate, release));
    input = tensor(network, LITE_INPUT);
    output = tensor(network, LITE_OUTPUT);
    for (size_t n = 0; n < size(input) / sizeof(float); ++n) CHECK(memory(input)[n] == 0);
    fill(memory(input), 0, size(input) / sizeof(float));
    run(network);
    CHECK(allocated == 2 && !freed && given[0].device == 3 && given[0].size == size(input));
    CHECK(memory(input) == given[0].at && memory(output) == given[1].at && !memcmp(memory(output), wanted, bytes));
    CHECK(!LITE_destroy_network(network) && freed == 2);
    CHECK(!LITE_make_default_network(&network));
    CHECK(!LITE_set_memory_allocator(network, allocate, release) && !LITE_load_model_from_path(network, argv[1]));
    empty = 1;
    WRONG(LITE_forward(network));
    CHECK(!LITE_destroy_network(network));

    /* Samples that are tensors of their own: three rows of four. */
    LiteConfig config = *default_config();
    LiteIO io = default_io;
    LiteNetworkIO ios = {&io, NULL, 1, 0};
    const char* name;
    LiteTensor sample;
    CHECK(!LITE_make_default_network(&network) && !LITE_load_model_from_path(network, argv[2]));
    CHECK(!LITE_get_input_name(network, 0, &name));
    io.name = strdup(name);
    io.config_layout = (LiteLayout){{3, 4}, 2, LITE_FLOAT};
    WRONG(LITE_get_discrete_tensor(network, io.name, 0, LITE_INPUT, &sample));
    CHECK(!LITE_destroy_network(network));
    config.discrete_input_name = "other";
    CHECK(!LITE_make_network(&network, config, ios));
    WRONG(LITE_load_model_from_path(network, argv[2]));
    CHECK(!LITE_destroy_network(network));
    config.discrete_input_name = io.name;
    CHECK(!LITE_make_network(&network, config, *default_network_io()));
    WRONG(LITE_load_model_from_path(network, argv[2]));
    CHECK(!LITE_destroy_network(network) && !LITE_make_network(&network, config, ios));
    CHECK(!LITE_load_model_from_path(network, argv[2]));
    /* As a whole first: nobody asked for a sample's memory. */
    input = tensor(network, LITE_INPUT);
    output = tensor(network, LITE_OUTPUT);
    fill(memory(input), 0, 12);
    run(network);
    size_t rows = size(output);
    float* whole = malloc(rows);
    memcpy(whole, memory(output), rows);
    memset(memory(input), 0, size(input));
    for (size_t n = 0; n < 3; ++n) {
        CHECK(!LITE_get_discrete_tensor(network, io.name, n, LITE_INPUT, &sample) && size(sample) == 16);
        fill(memory(sample), 4 * n, 4);
        CHECK(!LITE_destroy_tensor(sample));
    }
    run(network);
    CHECK(!memcmp(memory(output), whole, rows));
    WRONG(LITE_get_discrete_tensor(network, io.name, 3, LITE_INPUT, &sample));
    WRONG(LITE_get_discrete_tensor(network, io.name, 0, LITE_OUTPUT, &sample));
    WRONG(LITE_get_discrete_tensor(network, "other", 0, LITE_INPUT, &sample));
    CHECK(!LITE_get_discrete_tensor(network, io.name, 1, LITE_INPUT, &sample));
    CHECK(!LITE_set_tensor_layout(sample, (LiteLayout){{1, 5}, 2, LITE_FLOAT}));
    WRONG(LITE_forward(network));
    CHECK(!LITE_destroy_network(network));
    void* nothing;
    WRONG(LITE_get_tensor_memory(sample, &nothing));
    free((char*)io.name);
    free(whole);

    /* Outputs in the program's memory only. */
    config = *default_config();
    config.options.force_output_use_user_specified_memory = 1;
    CHECK(!LITE_make_network_config(&network, config) && !LITE_load_model_from_path(network, argv[1]));
    WRONG(LITE_set_async_callback(network, never));
    WRONG(LITE_forward(network));
    output = tensor(network, LITE_OUTPUT);
    float* own = calloc(1, bytes);
    CHECK(!LITE_reset_tensor_memory(output, own, bytes));
    input = tensor(network, LITE_INPUT);
    fill(memory(input), 0, size(input) / sizeof(float));
    run(network);
    CHECK(memory(output) == own && !memcmp(own, wanted, bytes));
    CHECK(!LITE_destroy_network(network));
    free(own);
    free(wanted);
    return 0;
}
