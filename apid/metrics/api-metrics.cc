#include "apid/metrics/api-metrics.h"

namespace talos::metrics {

void writeCalls(MetricsText& out, const apid::CallCounts& calls) {
  out.family("talos_api_calls_total", Type::kCounter,
             "Calls of clients of this apid since it was started, by their most powerful role");
  for (auto& [name, method] : calls.methods()) {
    for (auto& [labels, count] : method.results) {
      out.add({{"method", name.c_str()}, {"role", labels.first}, {"result", labels.second}}, count);
    }
  }
  out.family("talos_api_call_seconds", Type::kHistogram, "How long calls of clients take");
  for (auto& [name, method] : calls.methods()) {
    Label label{"method", name.c_str()};
    out.addHistogram(kj::arrayPtr(&label, 1), apid::CallCounts::kBounds, method.counts,
                     method.seconds);
  }
}

}  // namespace talos::metrics
