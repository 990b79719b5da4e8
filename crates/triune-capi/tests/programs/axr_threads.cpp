// Two threads with an instance each, of one model: axr_threads model.json in.bin out.bin
#include <cstdint>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "axruntime/axruntime.hpp"

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    auto context = axr::to_ptr(axr_create_context());
    auto* model = axr_load_model(context.get(), argv[1]);
    if (!model) return 1;
    const auto input = axr_get_model_input(model, 0), output = axr_get_model_output(model, 0);
    std::ifstream file(argv[2], std::ios::binary);
    std::vector<char> in{std::istreambuf_iterator<char>(file), {}};
    if (in.size() != axr_tensor_size(&input)) return 3;
    std::vector<std::vector<char>> outs(2, std::vector<char>(axr_tensor_size(&output)));
    std::vector<int> codes(2, -1);
    std::vector<std::thread> threads;
    for (std::size_t n = 0; n < outs.size(); ++n) {
        threads.emplace_back([&, n] {
            auto* connection = axr_device_connect(context.get(), nullptr, 1, nullptr);
            auto* instance = axr_load_model_instance(connection, model, nullptr);
            axrArgument given{in.data(), -1, 0, in.size()}, wanted{outs[n].data(), -1, 0, 0};
            codes[n] = 0;
            for (int frame = 0; frame < 20; ++frame) {
                codes[n] |= axr_run_model_instance(instance, &given, 1, &wanted, 1);
            }
            axr_destroy(AXR_OBJECT(instance));
            axr_destroy(AXR_OBJECT(connection));
        });
    }
    for (auto& thread : threads) thread.join();
    if (codes[0] || codes[1]) return 4;
    if (outs[0] != outs[1]) return 5;
    std::ofstream(argv[3], std::ios::binary).write(outs[0].data(), outs[0].size());
    return 0;
}
