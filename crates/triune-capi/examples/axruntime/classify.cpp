// Runs a model on a file of pixels and prints what it gives: classify model.json pixels.u8
//
// The file has a byte per pixel and channel, of the model's height, width and channels without padding.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "axruntime/axruntime.hpp"

namespace {

std::vector<std::int8_t> quantized(const std::vector<unsigned char>& pixels, const axrTensorInfo& info) {
    std::vector<std::int8_t> padded(axr_tensor_size(&info), static_cast<std::int8_t>(info.zero_point));
    const auto rows = info.dims[1], columns = info.dims[2], channels = info.dims[3];
    std::size_t next = 0;
    for (std::size_t y = info.padding[1][0]; y < rows - info.padding[1][1]; ++y) {
        for (std::size_t x = info.padding[2][0]; x < columns - info.padding[2][1]; ++x) {
            for (std::size_t c = info.padding[3][0]; c < channels - info.padding[3][1]; ++c) {
                const double real = next < pixels.size() ? pixels[next++] / 255.0 : 0.0;
                const double q = std::nearbyint(real / info.scale) + info.zero_point;
                padded[(y * columns + x) * channels + c] = static_cast<std::int8_t>(std::clamp(q, -128.0, 127.0));
            }
        }
    }
    return padded;
}

/// Whether an element is none of the padding.
bool holds_data(std::size_t element, const axrTensorInfo& info) {
    for (std::size_t axis = info.ndims; axis-- > 0; element /= info.dims[axis]) {
        const auto at = element % info.dims[axis];
        if (at < info.padding[axis][0] || at >= info.dims[axis] - info.padding[axis][1]) {
            return false;
        }
    }
    return true;
}

void logger(void*, axrLogLevel, const char* message) { std::fprintf(stderr, "%s\n", message); }

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: classify model.json pixels.u8\n");
        return 2;
    }
    auto context = axr::to_ptr(axr_create_context());
    axr_set_logger(context.get(), AXR_LOG_WARNING, logger, nullptr);

    auto* model = axr_load_model(context.get(), argv[1]);
    if (!model) {
        return 1;
    }
    const auto input = axr_get_model_input(model, 0);
    const auto output = axr_get_model_output(model, 0);
    const auto batch = input.dims[0];
    auto* connection = axr_device_connect(context.get(), nullptr, batch, nullptr);
    if (!connection) {
        return 1;
    }
    const auto text = "num_sub_devices=" + std::to_string(batch) + ";aipu_cores=" + std::to_string(batch);
    auto* instance =
        axr_load_model_instance(connection, model, axr_create_properties(context.get(), text.c_str()));
    if (!instance) {
        return 1;
    }

    std::ifstream file(argv[2], std::ios::binary);
    const std::vector<unsigned char> pixels{std::istreambuf_iterator<char>(file), {}};
    auto in = quantized(pixels, input);
    std::vector<std::int8_t> out(axr_tensor_size(&output));
    axrArgument given{in.data(), 0, 0, in.size()}, wanted{out.data(), 0, 0, out.size()};
    if (axr_run_model_instance(instance, &given, 1, &wanted, 1) != AXR_SUCCESS) {
        return 1;
    }
    std::size_t number = 0;
    for (std::size_t n = 0; n < out.size(); ++n) {
        if (holds_data(n, output)) {
            std::printf("%zu %.6f\n", number++, (out[n] - output.zero_point) * output.scale);
        }
    }
    return 0;
}
