/* Runs apart: lite_async model */
#define _GNU_SOURCE
#include "lite-c/network_c.h"
#include "lite-c/global_c.h"
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    LiteNetwork network;
    atomic_int calls;
    int code;
    int again;
    pthread_t thread;
} Run;

static atomic_int plain_calls;

static int plain(void) {
    ++plain_calls;
    return 0;
}

/* Looks at the network that ran, waits for it, which it need not, and may start it again. */
static int called(void* data) {
    Run* run = data;
    const char* name;
    LiteTensor output;
    void* memory;
    CHECK(!LITE_get_output_name(run->network, 0, &name));
    CHECK(!LITE_get_io_tensor(run->network, name, LITE_OUTPUT, &output) && !LITE_get_tensor_memory(output, &memory));
    CHECK(!LITE_wait(run->network));
    run->thread = pthread_self();
    if (run->again) {
        --run->again;
        CHECK(!LITE_forward(run->network));
    }
    ++run->calls;
    return run->code;
}

static LiteTensor tensor(LiteNetwork network, LiteTensorPhase phase) {
    const char* name;
    LiteTensor found;
    CHECK(!(phase == LITE_INPUT ? LITE_get_input_name : LITE_get_output_name)(network, 0, &name));
    CHECK(!LITE_get_io_tensor(network, name, phase, &found));
    return found;
}

static void* waits(void* network) {
    CHECK(!LITE_wait(network));
    return NULL;
}

static int threads_seen;

static int affinity(int thread) {
    CHECK(thread == 0);
    ++threads_seen;
    return 0;
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    LiteNetwork network, other;
    CHECK(!LITE_make_default_network(&network) && !LITE_load_model_from_path(network, argv[1]));
    float *from, *to, *wanted;
    size_t in_bytes, out_bytes;
    CHECK(!LITE_get_tensor_total_size_in_byte(tensor(network, LITE_INPUT), &in_bytes));
    CHECK(!LITE_get_tensor_memory(tensor(network, LITE_INPUT), (void**)&from));
    for (size_t at = 0; at < in_bytes / sizeof(float); ++at) from[at] = (float)(at * 7 % 13) - 5;
    CHECK(!LITE_set_runtime_thread_affinity(network, affinity));
    CHECK(!LITE_forward(network) && !LITE_wait(network) && threads_seen == 1);
    CHECK(!LITE_get_tensor_total_size_in_byte(tensor(network, LITE_OUTPUT), &out_bytes));
    CHECK(!LITE_get_tensor_memory(tensor(network, LITE_OUTPUT), (void**)&wanted));

    /* The callback may be set before the model is loaded, and forward returns at once. */
    CHECK(!LITE_make_default_network(&other));
    Run run = {.network = other};
    CHECK(!LITE_set_async_callback_with_userdata(other, called, &run));
    CHECK(LITE_set_cpu_inplace_mode(other) == -1 && strstr(LITE_get_last_error(), "exclude each other"));
    CHECK(!LITE_load_model_from_path(other, argv[1]));
    CHECK(!LITE_reset_tensor_memory(tensor(other, LITE_INPUT), from, in_bytes));
    CHECK(!LITE_forward(other));
    while (!run.calls) usleep(100);
    CHECK(!pthread_equal(run.thread, pthread_self()));
    CHECK(!LITE_get_tensor_memory(tensor(other, LITE_OUTPUT), (void**)&to) && !memcmp(to, wanted, out_bytes));
    CHECK(!LITE_wait(other) && !LITE_wait(other));

    /* Runs come one after the other; whoever waits, in any thread, waits for the last one. */
    memset(to, 0, out_bytes);
    for (int time = 0; time < 20; ++time) CHECK(!LITE_forward(other));
    pthread_t waiter;
    CHECK(!pthread_create(&waiter, NULL, waits, other));
    CHECK(!LITE_wait(other) && run.calls == 21 && !memcmp(to, wanted, out_bytes));
    CHECK(!pthread_join(waiter, NULL));
    run.again = 3;
    CHECK(!LITE_forward(other));
    while (run.calls < 25) usleep(100);
    CHECK(!LITE_wait(other) && run.calls == 25);

    /* What a run, or its callback, failed with, the next wait or forward says, and then it is over. */
    run.code = 3;
    CHECK(!LITE_forward(other) && LITE_wait(other) == -1);
    CHECK(!strcmp(LITE_get_last_error(), "the async callback gave 3"));
    CHECK(!LITE_forward(other));
    CHECK(LITE_forward(other) == -1 && !strcmp(LITE_get_last_error(), "the async callback gave 3"));
    run.code = 0;
    CHECK(!LITE_forward(other) && !LITE_wait(other));
    CHECK(!LITE_set_async_callback(other, plain) && !LITE_forward(other) && !LITE_wait(other) && plain_calls == 1);

    /* A child has the network as it was between two runs. */
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        memset(to, 0, out_bytes);
        _exit(!LITE_forward(other) && !LITE_wait(other) && !memcmp(to, wanted, out_bytes) ? 0 : 4);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!LITE_set_async_callback(other, NULL) && !LITE_forward(other) && plain_calls == 1);

    /* Destroying waits for the run, and its callback finds nothing gone. */
    CHECK(!LITE_set_async_callback_with_userdata(other, called, &run) && !LITE_forward(other));
    CHECK(!LITE_wait(other) && !LITE_destroy_network(other));
    CHECK(LITE_forward(other) == -1);
    CHECK(!LITE_destroy_network(network));
    CHECK(!LITE_make_default_network(&network) && !LITE_set_cpu_threads_number(network, 2));
    CHECK(!LITE_load_model_from_path(network, argv[1]));
    CHECK(LITE_set_runtime_thread_affinity(network, affinity) == -1);
    CHECK(!strcmp(LITE_get_last_error(), "not implemented: LITE_set_runtime_thread_affinity of several threads"));
    CHECK(!LITE_destroy_network(network));
    puts("done");
    return 0;
}
