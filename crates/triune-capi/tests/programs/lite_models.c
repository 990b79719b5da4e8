/* Models in all forms: lite_models plain secret packed own; `secret` is plain with each byte xor 15, `own` packed for a parser "mine". */
#include "lite-c/global_c.h"
#include "lite-c/network_c.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t swap(const void* input, size_t size, const uint8_t* key, size_t key_size, const void* output) {
    if (key_size != 1) return (size_t)-1;
    if (!output) return size;
    for (size_t at = 0; at < size; ++at) ((uint8_t*)output)[at] = ((const uint8_t*)input)[at] ^ key[0];
    return size;
}

static int parse(
    const void* info, size_t size, const char* name, LiteConfig* config, LiteNetworkIO* io, int* device_id,
    size_t* nr_threads, int* is_cpu_inplace_mode, int* use_tensorrt) {
    static LiteIO input;
    (void)is_cpu_inplace_mode;
    (void)use_tensorrt;
    if (size < 5 || memcmp(info, "mine:", 5)) return 0;
    config->options.graph_opt_level = 0;
    *device_id = 5;
    *nr_threads = 3;
    input = default_io;
    input.name = "x";
    input.io_type = LITE_IO_SHAPE;
    io->inputs = &input;
    io->input_size = 1;
    return !strcmp(name, "net");
}

static void* content(const char* path, size_t* size) {
    FILE* file = fopen(path, "rb");
    CHECK(file && !fseek(file, 0, SEEK_END));
    *size = (size_t)ftell(file);
    rewind(file);
    void* all = malloc(*size);
    CHECK(fread(all, 1, *size, file) == *size && !fclose(file));
    return all;
}

static LiteNetwork made(const char* cipher) {
    LiteNetwork network;
    LiteConfig config = *default_config();
    config.bare_model_cryption_name = cipher;
    CHECK(!LITE_make_network_config(&network, config));
    return network;
}

/* Its output for an input of its own, as one sum. */
static float sum(LiteNetwork network) {
    const char* name;
    LiteTensor input, output;
    float *from, *to, total = 0;
    size_t bytes;
    CHECK(!LITE_get_input_name(network, 0, &name) && !LITE_get_io_tensor(network, name, LITE_INPUT, &input));
    CHECK(!LITE_get_tensor_memory(input, (void**)&from) && !LITE_get_tensor_total_size_in_byte(input, &bytes));
    for (size_t at = 0; at < bytes / sizeof(float); ++at) from[at] = (float)(at % 5);
    CHECK(!LITE_forward(network) && !LITE_wait(network));
    CHECK(!LITE_get_output_name(network, 0, &name) && !LITE_get_io_tensor(network, name, LITE_OUTPUT, &output));
    CHECK(!LITE_get_tensor_memory(output, (void**)&to) && !LITE_get_tensor_total_size_in_byte(output, &bytes));
    for (size_t at = 0; at < bytes / sizeof(float); ++at) total += to[at] * (float)(at % 7);
    return total;
}

int main(int argc, char** argv) {
    if (argc < 5) return 2;
    const char *plain = argv[1], *secret = argv[2], *packed = argv[3], *own = argv[4];
    LiteNetwork network = made(NULL), other;
    CHECK(!LITE_load_model_from_path(network, plain));
    float wanted = sum(network);
    const char* info;
    int size, number;
    size_t count;
    CHECK(!LITE_get_model_extra_info(network, &info, &size) && size == 0 && !*info);

    /* What a model has, before it is loaded. */
    LiteNetworkIO by_path, by_memory;
    size_t bytes;
    void* model = content(plain, &bytes);
    CHECK(!LITE_get_model_io_info_by_path(plain, *default_config(), &by_path));
    CHECK(!LITE_get_model_io_info_by_memory(model, bytes, *default_config(), &by_memory));
    for (LiteNetworkIO* ios = &by_path;; ios = &by_memory) {
        CHECK(ios->input_size == 1 && ios->output_size == 1);
        CHECK(!strcmp(ios->inputs->name, "image") && ios->inputs->is_host);
        CHECK(ios->inputs->config_layout.ndim == 4 && ios->inputs->config_layout.shapes[3] == 8);
        CHECK(ios->outputs->config_layout.ndim == 4 && ios->outputs->config_layout.data_type == LITE_FLOAT);
        if (ios == &by_memory) break;
    }
    free(model);
    WRONG(LITE_get_model_io_info_by_path("gone.mge", *default_config(), &by_path));
    WRONG(LITE_get_model_io_info_by_path(NULL, *default_config(), &by_path));
    WRONG(LITE_get_model_io_info_by_path(plain, *default_config(), NULL));

    /* Ciphers of the program's. */
    uint8_t key[] = {14};
    other = made("swap");
    WRONG(LITE_load_model_from_path(other, secret));
    WRONG(LITE_update_decryption_or_key("swap", swap, key, 1));
    CHECK(!LITE_register_decryption_and_key("swap", swap, key, 1));
    WRONG(LITE_register_decryption_and_key("swap", swap, key, 1));
    WRONG(LITE_register_decryption_and_key("RC4_default", swap, key, 1));
    WRONG(LITE_register_decryption_and_key("none", NULL, key, 1));
    WRONG(LITE_register_decryption_and_key(NULL, swap, key, 1));
    WRONG(LITE_register_decryption_and_key("none", swap, NULL, 1));
    CHECK(LITE_load_model_from_path(other, secret) == -1);
    key[0] = 15;
    CHECK(!LITE_update_decryption_or_key("swap", NULL, key, 1) && !LITE_load_model_from_path(other, secret));
    CHECK(sum(other) == wanted);
    CHECK(!LITE_update_decryption_or_key("swap", swap, NULL, 0) && !LITE_load_model_from_path(other, secret));
    uint8_t two[] = {1, 2};
    CHECK(!LITE_update_decryption_or_key("swap", NULL, two, 2));
    WRONG(LITE_load_model_from_path(other, secret));
    CHECK(sum(other) == wanted);
    WRONG(LITE_update_decryption_or_key("AES_default", NULL, two, 2));
    CHECK(!LITE_destroy_network(other));

    /* Packed models, decrypted with the key that their header names a cipher for, configure the network. */
    other = made(NULL);
    CHECK(!LITE_set_cpu_threads_number(other, 2) && !LITE_load_model_from_path(other, packed));
    CHECK(sum(other) == wanted);
    CHECK(!LITE_get_model_extra_info(other, &info, &size) && (size_t)size == strlen(info));
    puts(info);
    CHECK(!LITE_get_cpu_threads_number(other, &count) && count == 1);
    CHECK(!LITE_is_cpu_inplace_mode(other, &number) && number == 1);
    CHECK(!LITE_get_device_id(other, &number) && number == 7);
    /* A bare model has what the program said again. */
    CHECK(!LITE_load_model_from_path(other, plain) && !LITE_get_cpu_threads_number(other, &count) && count == 2);
    CHECK(!LITE_is_cpu_inplace_mode(other, &number) && number == 0);
    CHECK(!LITE_destroy_network(other));
    other = made(NULL);
    CHECK(!LITE_extra_configure(other, (LiteExtraConfig){1}) && !LITE_load_model_from_path(other, packed));
    CHECK(!LITE_get_device_id(other, &number) && number == 0 && sum(other) == wanted);
    WRONG(LITE_extra_configure(other, (LiteExtraConfig){0}));
    CHECK(!LITE_destroy_network(other));
    other = made(NULL);
    WRONG(LITE_load_model_from_path(other, own));
    CHECK(!LITE_register_parse_info_func("mine", parse));
    WRONG(LITE_register_parse_info_func("mine", parse));
    WRONG(LITE_register_parse_info_func("LITE_default", parse));
    CHECK(!LITE_load_model_from_path(other, own) && sum(other) == wanted);
    CHECK(!LITE_get_device_id(other, &number) && number == 5);
    CHECK(!LITE_get_cpu_threads_number(other, &count) && count == 3);
    CHECK(!LITE_destroy_network(other));
    uint8_t wrong[16] = {1};
    CHECK(!LITE_update_decryption_or_key("RC4_default", NULL, wrong, sizeof wrong));
    other = made(NULL);
    CHECK(LITE_load_model_from_path(other, packed) == -1);

    /* What has no effect on runs. */
    CHECK(!LITE_use_tensorrt(other) && !LITE_enable_global_layout_transform(other));
    CHECK(!LITE_load_model_from_path(other, plain) && !LITE_dump_layout_transform_model(other, "again.mge"));
    CHECK(!LITE_destroy_network(other));
    other = made(NULL);
    CHECK(!LITE_load_model_from_path(other, "again.mge") && sum(other) == wanted);
    WRONG(LITE_dump_layout_transform_model(other, "again.mge"));
    WRONG(LITE_use_tensorrt(other));
    CHECK(!LITE_destroy_network(other));
    WRONG(LITE_dump_tensor_rt_cache());
    CHECK(!LITE_set_tensor_rt_cache("rt.cache") && !LITE_dump_tensor_rt_cache());
    CHECK(!LITE_set_persistent_cache("gone.cache", 0) && !LITE_dump_persistent_cache("new.cache"));
    unsigned* empty = content("new.cache", &bytes);
    CHECK(bytes == 4 && !*empty && !LITE_set_persistent_cache(plain, 1) && !LITE_dump_persistent_cache("new.cache"));
    free(empty);
    CHECK(!LITE_load_model_from_path(network, "new.cache") && sum(network) == wanted);
    CHECK(!LITE_set_loader_lib_path(argv[0]));
    WRONG(LITE_set_loader_lib_path(plain));

    /* Memory of two networks, in either order. */
    for (int order = 0; order < 2; ++order) {
        other = made(NULL);
        CHECK(!(order ? LITE_share_runtime_memroy(network, other) : LITE_share_runtime_memroy(other, network)));
        CHECK(!LITE_load_model_from_path(other, plain) && sum(other) == wanted && sum(network) == wanted);
        WRONG(LITE_share_runtime_memroy(other, network));
        CHECK(!LITE_destroy_network(other));
    }
    WRONG(LITE_share_runtime_memroy(network, network));
    CHECK(!LITE_destroy_network(network));

    /* Pairs of addresses. */
    char *virtual_ = (char*)0x10000, *physical = (char*)0x90000;
    void* found;
    CHECK(!LITE_register_memory_pair(virtual_, physical, 256, LITE_CUDA, LITE_DEFAULT));
    CHECK(!LITE_lookup_physic_ptr(virtual_ + 255, &found, LITE_CUDA, LITE_DEFAULT) && found == physical + 255);
    WRONG(LITE_lookup_physic_ptr(virtual_ + 256, &found, LITE_CUDA, LITE_DEFAULT));
    WRONG(LITE_lookup_physic_ptr(virtual_, &found, LITE_CPU, LITE_DEFAULT));
    WRONG(LITE_register_memory_pair(virtual_ + 8, physical, 1, LITE_CUDA, LITE_DEFAULT));
    WRONG(LITE_register_memory_pair(virtual_, physical, 0, LITE_CUDA, LITE_DEFAULT));
    WRONG(LITE_register_memory_pair(virtual_, NULL, 1, LITE_CUDA, LITE_DEFAULT));
    WRONG(LITE_register_memory_pair(virtual_, physical, 1, LITE_CUDA, LITE_RK_NPU));
    WRONG(LITE_clear_memory_pair(virtual_, physical + 1, LITE_CUDA, LITE_DEFAULT));
    CHECK(!LITE_clear_memory_pair(virtual_, physical, LITE_CUDA, LITE_DEFAULT));
    WRONG(LITE_clear_memory_pair(virtual_, physical, LITE_CUDA, LITE_DEFAULT));
    return 0;
}
