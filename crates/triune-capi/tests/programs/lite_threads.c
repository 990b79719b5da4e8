/* Threads with a network each, on one copy of the weights, and threads on one network: lite_threads model */
#define _GNU_SOURCE
#include "lite-c/global_c.h"
#include "lite-c/network_c.h"
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, RUNS = 25 };

static LiteNetwork first;
static float* wanted;
static size_t out_bytes;

static void* memory(LiteNetwork network, LiteTensorPhase phase, size_t* bytes) {
    const char* name;
    LiteTensor tensor;
    void* start;
    CHECK(!(phase == LITE_INPUT ? LITE_get_input_name : LITE_get_output_name)(network, 0, &name));
    CHECK(!LITE_get_io_tensor(network, name, phase, &tensor) && !LITE_get_tensor_memory(tensor, &start));
    CHECK(!LITE_get_tensor_total_size_in_byte(tensor, bytes));
    return start;
}

static void fill(LiteNetwork network) {
    size_t bytes;
    float* from = memory(network, LITE_INPUT, &bytes);
    for (size_t at = 0; at < bytes / sizeof(float); ++at) from[at] = (float)(at * 7 % 13) - 5;
}

/* An error is its thread's own. */
static void* on_its_own(void* number) {
    LiteNetwork network;
    CHECK(!LITE_make_default_network(&network));
    if ((size_t)number % 2) {
        CHECK(LITE_forward(network) == -1 && !strcmp(LITE_get_last_error(), "no model is loaded"));
    } else {
        CHECK(!*LITE_get_last_error());
    }
    CHECK(!LITE_shared_weight_with_network(network, first));
    fill(network);
    for (int run = 0; run < RUNS; ++run) {
        CHECK(!LITE_forward(network) && !LITE_wait(network));
        size_t bytes;
        float* to = memory(network, LITE_OUTPUT, &bytes);
        CHECK(bytes == out_bytes && !memcmp(to, wanted, bytes));
    }
    CHECK(!LITE_destroy_network(network));
    return NULL;
}

static void* together(void* number) {
    (void)number;
    for (int run = 0; run < RUNS; ++run) CHECK(!LITE_forward(first) && !LITE_wait(first));
    return NULL;
}

static void in_threads(void* (*work)(void*)) {
    pthread_t threads[THREADS];
    for (size_t number = 0; number < THREADS; ++number) {
        CHECK(!pthread_create(&threads[number], NULL, work, (void*)number));
    }
    for (size_t number = 0; number < THREADS; ++number) CHECK(!pthread_join(threads[number], NULL));
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    CHECK(!LITE_make_default_network(&first) && !LITE_set_cpu_threads_number(first, 2));
    CHECK(!LITE_load_model_from_path(first, argv[1]));
    fill(first);
    CHECK(!LITE_forward(first) && !LITE_wait(first));
    float* to = memory(first, LITE_OUTPUT, &out_bytes);
    wanted = malloc(out_bytes);
    memcpy(wanted, to, out_bytes);
    in_threads(on_its_own);
    in_threads(together);
    CHECK(!memcmp(memory(first, LITE_OUTPUT, &out_bytes), wanted, out_bytes));

    /* Children that are made while threads run: a new network works, the parent's does or says why not. */
    pthread_t busy;
    CHECK(!pthread_create(&busy, NULL, together, NULL));
    for (int child = 0; child < 5; ++child) {
        fflush(NULL);
        pid_t made = fork();
        if (!made) {
            alarm(60);
            if (LITE_forward(first) && !strstr(LITE_get_last_error(), "fork")) _exit(3);
            LiteNetwork own;
            CHECK(!LITE_make_default_network(&own) && !LITE_load_model_from_path(own, argv[1]));
            fill(own);
            CHECK(!LITE_forward(own) && !LITE_wait(own));
            _exit(memcmp(memory(own, LITE_OUTPUT, &out_bytes), wanted, out_bytes) ? 4 : 0);
        }
        int status;
        CHECK(waitpid(made, &status, 0) == made && WIFEXITED(status) && !WEXITSTATUS(status));
    }
    CHECK(!pthread_join(busy, NULL) && !LITE_destroy_network(first));
    free(wanted);
    puts("done");
    return 0;
}
