/* How the functions of lite-c are declared. */
#ifndef LITE_MACRO_H_
#define LITE_MACRO_H_

#define LITE_API __attribute__((visibility("default")))

#endif
