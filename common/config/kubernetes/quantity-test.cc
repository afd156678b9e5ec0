#include "common/config/kubernetes/quantity.h"

#include <gtest/gtest.h>

namespace talos::config {
namespace {

// Catches: a limit that is read as a thousandth of it; a text that the API server refuses, and with
// it the pod.
TEST(Quantities, AreReadAsKubernetesReadsThem) {
  const std::pair<kj::StringPtr, double> good[] = {
      {"200m"_kj, 0.2},  {"1"_kj, 1},      {"1.5"_kj, 1.5},
      {".5"_kj, 0.5},    {"1."_kj, 1},     {"512Mi"_kj, 536870912},
      {"1G"_kj, 1e9},    {"2Ki"_kj, 2048}, {"1e3"_kj, 1000},
      {"12E-1"_kj, 1.2}, {"1E"_kj, 1e18},  {"+3"_kj, 3},
      {"0"_kj, 0},
  };
  for (auto& [text, value] : good) {
    EXPECT_DOUBLE_EQ(value, parseQuantity(text).orDefault(-1)) << text.cStr();
  }
  for (auto text : {""_kj, "m"_kj, "."_kj, "1 Gi"_kj, "1GB"_kj, "1mi"_kj, "-1"_kj, "1.2.3"_kj,
                    "half"_kj, "1e999"_kj, "1K"_kj}) {
    EXPECT_TRUE(parseQuantity(text) == nullptr) << text.cStr();
  }
}

}  // namespace
}  // namespace talos::config
