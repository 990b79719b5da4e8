/* What programs expect of lite-c. */
#ifndef CHECK_H
#define CHECK_H

#include "lite-c/global_c.h"

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with what was expected, where, and the last error. */
#define CHECK(_true)                                                                        \
    do {                                                                                    \
        if (!(_true)) {                                                                     \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #_true, LITE_get_last_error());  \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

/* A call that has to fail; prints its error. */
#define WRONG(_call)                  \
    do {                              \
        CHECK((_call) == -1);         \
        puts(LITE_get_last_error());  \
    } while (0)

#endif
