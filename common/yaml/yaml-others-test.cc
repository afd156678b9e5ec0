#include <gtest/gtest.h>

#include "common/testing/printing.h"
#include "common/yaml/test-read.h"
#include "rpc/config.capnp.h"

namespace talos::codec {
namespace {

// Catches: a key that no field has and that is lost, or read as the field that holds such keys; a
// value that changes when it is written again; a value without a place for the checks.
TEST(ReadYaml, TakesKeysThatNoFieldHas) {
  auto text =
      "shutdownGracePeriod: 60s\n"
      "'*': [1]\n"
      "maxPods: 200\n"
      "featureGates: {A: true}\n"
      "evictionSoft:\n"
      "  memory.available: 1Gi  # enough\n"_kj;
  Read<config::KubeletConfiguration> read(text);
  ASSERT_TRUE(read.good) << read.all().cStr();
  auto others = read.value.asReader().getOthers();
  ASSERT_EQ(others.size(), 4u);
  EXPECT_EQ(others[0].getKey(), "*");
  EXPECT_EQ(others[1].getValue(), "200\n");
  EXPECT_EQ(others[2].getValue(), "A: true\n");
  EXPECT_EQ(others[3].getValue(), "memory.available: 1Gi  # enough\n");
  EXPECT_EQ(read.places.find("maxPods").line, 3u);
  EXPECT_EQ(read.places.find("evictionSoft").line, 5u);
  auto written = yaml(read.value.asReader(), {.empties = Empties::kOmit});
  Read<config::KubeletConfiguration> again(written);
  EXPECT_TRUE(again.good) << written.cStr();
  EXPECT_EQ(written, yaml(again.value.asReader(), {.empties = Empties::kOmit}));
  EXPECT_EQ(again.value.asReader().getOthers().size(), 4u) << written.cStr();
  EXPECT_NE(std::string(written.cStr()).find("\nmaxPods: 200\n"), std::string::npos);
  EXPECT_EQ(writeJson(read.value.asReader(), {.indent = 0, .empties = Empties::kOmit}),
            R"({"shutdownGracePeriod":"60s","*":[1],"maxPods":200,"featureGates":{"A":true},)"
            R"("evictionSoft":{"memory.available":"1Gi"}})");
}

}  // namespace
}  // namespace talos::codec
