/* Everything that a program can get wrong, one line each: axr_wrong model.json folder other.onnx */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "axruntime/axruntime.h"

static axrContext* context;
static int logged;

static void say(const char* what) {
    printf("%s: %s: %s\n", what, axr_error_string(axr_last_error(AXR_OBJECT(context))),
           axr_last_error_string(AXR_OBJECT(context)));
}

static void say_homeless(const char* what) {
    printf("%s: %s: %s\n", what, axr_error_string(axr_last_error(NULL)), axr_last_error_string(NULL));
}

static void count(void* arg, axrLogLevel level, const char* message) {
    if (level == AXR_LOG_ERROR && *message) ++*(int*)arg;
}

int main(int argc, char** argv) {
    if (argc != 4) return 2;

    /* No context at all. */
    if (axr_load_model(NULL, argv[1])) return 3;
    say_homeless("no context");
    if (axr_create_properties(NULL, "a=1") || axr_list_devices(NULL, NULL) || axr_tensor_size(NULL)) return 3;
    if (axr_get_context(NULL)) return 3;
    axr_destroy(NULL);

    context = axr_create_context();
    printf("nothing yet: %d '%s'\n", axr_last_error(AXR_OBJECT(context)), axr_last_error_string(AXR_OBJECT(context)));
    axr_set_logger(context, AXR_LOG_ERROR, count, &logged);

    if (axr_load_model(context, NULL)) return 4;
    say("NULL path");
    if (axr_load_model(context, argv[2])) return 4;
    say("folder");
    if (axr_load_model(context, argv[3])) return 4;
    say("onnx");
    if (axr_load_model(context, "gone/model.json")) return 4;
    say("gone");

    axrModel* model = axr_load_model(context, argv[1]);
    if (!model || axr_get_context(AXR_OBJECT(model)) != context) return 5;
    if (axr_get_model_input(model, 7).ndims) return 5;
    say("no such input");
    if (axr_num_model_inputs((axrModel*)context)) return 5;
    say("another kind");

    axrProperties* properties = axr_get_model_properties(model);
    printf("properties: %s; %s\n", axr_list_properties(properties), axr_get_property(properties, "input_tensor_layout"));
    axr_set_property(properties, "mine", "1");
    if (strcmp(axr_get_property(properties, "mine"), "1")) return 5;
    axr_del_property(properties, "mine");
    if (axr_get_property(properties, "mine")) return 5;
    axr_set_property(properties, "mine", NULL);
    say("NULL value");

    axrDeviceInfo* devices = NULL;
    size_t found = axr_list_devices(context, &devices);
    printf("devices: %zu %s %zu %s\n", found, devices[0].name, devices[0].subdevice_count,
           axr_board_type_string(devices[0].board_type));
    axrDeviceInfo other = devices[0];
    strcpy(other.name, "nobody");
    if (axr_device_connect(context, &other, 1, NULL)) return 6;
    say("no such device");
    if (axr_device_connect(context, devices, 9, NULL)) return 6;
    say("too many");
    if (axr_configure_device(context, devices, axr_create_properties(context, "speed=1")) !=
        AXR_ERROR_INVALID_CONFIGURATION)
        return 6;
    if (axr_configure_device(context, devices, axr_create_properties(context, "clock_profile=1")) !=
        AXR_ERROR_VALUE_ERROR)
        return 6;
    say("no such clock");
    axrProperties* settings = axr_read_device_configuration(context, devices);
    printf("clock: %s\n", axr_get_property(settings, "clock_profile"));
    if (axr_device_ready(context, devices) != AXR_SUCCESS) return 6;

    axrConnection* connection = axr_device_connect(context, devices, 1, NULL);
    axrConnection* greedy = axr_device_connect(context, NULL, 4, NULL);
    if (!connection || greedy || axr_last_error(AXR_OBJECT(model)) != AXR_ERROR_DEVICE_IN_USE) return 7;
    if (axr_load_model_instance(connection, model, axr_create_properties(context, "sub_devices=1"))) return 7;
    say("unknown property");
    if (axr_load_model_instance(connection, model, axr_create_properties(context, "double_buffer=yes"))) return 7;
    say("no flag");
    if (axr_load_model_instance(connection, NULL, NULL)) return 7;
    say("NULL model");

    axrModelInstance* instance = axr_load_model_instance(connection, model, NULL);
    if (!instance) return 8;
    if (axr_load_model_instance(connection, model, NULL)) return 8;
    say("no sub-device left");

    axrTensorInfo in = axr_get_model_input(model, 0), out = axr_get_model_output(model, 0);
    char* memory = calloc(1, axr_tensor_size(&in));
    char* result = calloc(1, axr_tensor_size(&out));
    axrArgument given = {memory, -1, 0, 0}, wanted = {result, 0, 0, 0};
    if (axr_run_model_instance(instance, NULL, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("NULL inputs");
    if (axr_run_model_instance(instance, &given, 0, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("no inputs");
    given.size = 1;
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("another size");
    given.size = 0;
    given.offset = 4;
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("an offset");
    given.offset = 0;
    wanted.ptr = memory;
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("one memory");
    wanted.ptr = NULL;
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 9;
    say("NULL memory");
    wanted.ptr = result;
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_SUCCESS) return 9;
    memset(memory, 3, axr_tensor_size(&in));
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_SUCCESS) return 9;

    /* The same through descriptors: one that is mapped, and one that is copied. */
    axr_destroy(AXR_OBJECT(instance));
    instance = axr_load_model_instance(connection, model, axr_create_properties(context, "input_dmabuf=1\noutput_dmabuf=1"));
    int sealed = memfd_create("in", MFD_ALLOW_SEALING), loose = memfd_create("out", 0);
    if (!instance || sealed < 0 || loose < 0) return 10;
    if (ftruncate(sealed, axr_tensor_size(&in)) || fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK)) return 10;
    if (write(sealed, memory, axr_tensor_size(&in)) != (ssize_t)axr_tensor_size(&in)) return 10;
    axrArgument from = {NULL, sealed, 0, 0}, to = {NULL, loose, 0, 0};
    if (axr_run_model_instance(instance, &from, 1, &to, 1) != AXR_ERROR_INVALID_ARGUMENT) return 10;
    if (ftruncate(loose, axr_tensor_size(&out))) return 10;
    if (axr_run_model_instance(instance, &from, 1, &to, 1) != AXR_SUCCESS) return 10;
    char* mapped = mmap(NULL, axr_tensor_size(&out), PROT_READ, MAP_SHARED, loose, 0);
    printf("descriptors: %s\n", memcmp(mapped, result, axr_tensor_size(&out)) ? "another result" : "the same");
    munmap(mapped, axr_tensor_size(&out));
    from.fd = -1;
    if (axr_run_model_instance(instance, &from, 1, &to, 1) != AXR_ERROR_INVALID_ARGUMENT) return 10;
    say("no descriptor");

    /* A child of a fork has objects of its own. */
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        axrContext* own = axr_create_context();
        axrConnection* another = axr_device_connect(own, NULL, 1, NULL);
        axrModel* again = axr_load_model(own, argv[1]);
        axrModelInstance* here = axr_load_model_instance(another, again, NULL);
        char* mine = calloc(1, axr_tensor_size(&out));
        axrArgument theirs = {mine, 0, 0, 0};
        int code = axr_run_model_instance(here, &given, 1, &theirs, 1);
        int same = !memcmp(mine, result, axr_tensor_size(&out));
        free(mine);
        axr_destroy(AXR_OBJECT(own));
        _exit(code == AXR_SUCCESS && same ? 0 : 1);
    }
    int status = -1;
    if (waitpid(child, &status, 0) != child) return 11;
    printf("a child: %d\n", status);

    /* What has been destroyed is told from what lives, and destroying it again is harmless. */
    axr_destroy(AXR_OBJECT(connection));
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_ERROR_INVALID_ARGUMENT) return 12;
    say_homeless("destroyed with its connection");
    axr_destroy(AXR_OBJECT(connection));
    axr_destroy(AXR_OBJECT(instance));
    axr_destroy(AXR_OBJECT(context));
    axr_destroy(AXR_OBJECT(context));
    if (axr_num_model_inputs(model)) return 12;
    printf("logged: %s\n", logged > 15 ? "all" : "too few");
    free(memory);
    free(result);
    close(sealed);
    close(loose);
    return 0;
}
