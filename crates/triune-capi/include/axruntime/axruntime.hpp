// What C++ programs hold the objects of axruntime.h in: pointers that destroy them.
#ifndef AXRUNTIME_AXRUNTIME_HPP
#define AXRUNTIME_AXRUNTIME_HPP

#include <memory>

#include "axruntime/axruntime.h"

namespace axr {

struct object_deleter {
    template <class T>
    void operator()(T* object) const {
        axr_destroy(reinterpret_cast<const axrObject*>(object));
    }
};

template <class T>
using ptr = std::unique_ptr<T, object_deleter>;

template <class T>
ptr<T> to_ptr(T* object) {
    return ptr<T>(object);
}

}  // namespace axr

#endif
