#include "common/memory.h"

#include <gtest/gtest.h>
#include <kj/string.h>
#include <stdio.h>

#include "common/file.h"

namespace talos {
namespace {

size_t residentFilePages() {
  auto status = readFile("/proc/self/status");
  auto* line = strstr(status.cStr(), "RssFile:");
  size_t kib = 0;
  EXPECT_EQ(1, sscanf(line, "RssFile: %zu", &kib));
  return kib;
}

const kj::StringPtr kConstant = "still here"_kj;
int variable = 41;

// Catches: a segment with data of this process among those given back; nothing given back at all.
TEST(ReleaseStartMemory, KeepsDataAndGivesPagesBack) {
  variable++;
  auto before = residentFilePages();
  releaseStartMemory();
  auto after = residentFilePages();
  EXPECT_EQ(42, variable);
  EXPECT_EQ("still here"_kj, kConstant);
  EXPECT_LT(after, before);
}

}  // namespace
}  // namespace talos
