// One frame through a model, in the form of the vendor's example: axr_image model.json in.bin out.bin [properties]
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "axruntime/axruntime.hpp"

static void logger(void* arg, axrLogLevel level, const char* msg) {
    (void)arg;
    (void)level;
    std::cerr << msg << std::endl;
}

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    auto ctx = axr::to_ptr(axr_create_context());
    axr_set_logger(ctx.get(), AXR_LOG_WARNING, logger, nullptr);
    auto model = axr_load_model(ctx.get(), argv[1]);
    if (!model) {
        std::cout << axr_last_error_string(AXR_OBJECT(ctx.get())) << std::endl;
        return 1;
    }
    std::vector<axrTensorInfo> input_infos, output_infos;
    auto inputs = axr_num_model_inputs(model);
    for (size_t n = 0; n != inputs; ++n) input_infos.push_back(axr_get_model_input(model, n));
    auto outputs = axr_num_model_outputs(model);
    for (size_t n = 0; n != outputs; ++n) output_infos.push_back(axr_get_model_output(model, n));
    for (const auto& info : input_infos) {
        std::cout << info.name;
        for (size_t n = 0; n != info.ndims; ++n) {
            const auto [before, after] = info.padding[n];
            std::cout << ' ' << info.dims[n] << '-' << before << '-' << after;
        }
        std::cout << ' ' << info.bits << ' ' << info.type << ' ' << info.scale << ' ' << info.zero_point << std::endl;
    }
    const auto batch_size = input_infos[0].dims[0];
    auto connection = axr_device_connect(ctx.get(), nullptr, batch_size, nullptr);
    if (!connection) {
        std::cout << axr_last_error_string(AXR_OBJECT(ctx.get())) << std::endl;
        return 1;
    }
    const auto props = "input_dmabuf=0;num_sub_devices=" + std::to_string(batch_size) +
                       ";aipu_cores=" + std::to_string(batch_size) + (argc > 4 ? argv[4] : "");
    auto properties = axr_create_properties(ctx.get(), props.c_str());
    auto instance = axr_load_model_instance(connection, model, properties);
    if (!instance) {
        std::cout << axr_last_error_string(AXR_OBJECT(ctx.get())) << std::endl;
        return 1;
    }
    std::vector<axrArgument> input_args(inputs), output_args(outputs);
    std::vector<std::unique_ptr<std::int8_t[]>> input_data, output_data;
    for (size_t n = 0; n != inputs; ++n) {
        input_data.emplace_back(new std::int8_t[axr_tensor_size(&input_infos[n])]);
        input_args[n].ptr = input_data[n].get();
        input_args[n].fd = 0;
        input_args[n].offset = 0;
    }
    for (size_t n = 0; n != outputs; ++n) {
        output_data.emplace_back(new std::int8_t[axr_tensor_size(&output_infos[n])]());
        output_args[n].ptr = output_data[n].get();
        output_args[n].fd = 0;
        output_args[n].offset = 0;
    }
    std::ifstream file(argv[2], std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.size() != axr_tensor_size(&input_infos[0])) return 3;
    std::copy(bytes.begin(), bytes.end(), input_data[0].get());
    // Results of a double-buffered instance come two calls late.
    const int calls = props.find("double_buffer=1") != std::string::npos ? 3 : 1;
    for (int call = 0; call != calls; ++call) {
        if (axr_run_model_instance(
                instance, input_args.data(), input_args.size(), output_args.data(), output_args.size()) !=
            AXR_SUCCESS) {
            std::cout << axr_last_error_string(AXR_OBJECT(ctx.get())) << std::endl;
            return 1;
        }
    }
    std::ofstream result(argv[3], std::ios::binary);
    result.write(reinterpret_cast<const char*>(output_data[0].get()), axr_tensor_size(&output_infos[0]));
    return 0;
}
