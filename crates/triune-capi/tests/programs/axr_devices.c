/* All fields of all devices, with two sub-devices of the first and one of the second in use. */
#include <stdio.h>
#include <string.h>

#include "axruntime/axruntime.h"

int main(void) {
    axrContext* context = axr_create_context();
    axrDeviceInfo* devices = NULL;
    size_t found = axr_list_devices(context, &devices);
    if (found != 2 || axr_list_devices(context, NULL) != 2) return 1;
    if (!axr_device_connect(context, &devices[0], 2, NULL) || !axr_device_connect(context, &devices[1], 1, NULL)) return 2;
    if (axr_list_devices(context, &devices) != found) return 3;
    for (size_t n = 0; n < found; ++n) {
        const axrDeviceInfo* it = &devices[n];
        if (!strchr(it->in_use_by, ':')) return 4;
        printf("%s %zu %zu %d %s %s %d %s '%s' '%s'\n", it->name, it->subdevice_count, it->max_memory, it->in_use,
               axr_board_type_string(it->board_type), it->firmware_version, it->board_revision,
               it->flashed_firmware_version, it->board_controller_firmware_version, it->board_controller_board_type);
    }
    axr_destroy(AXR_OBJECT(context));
    return 0;
}
