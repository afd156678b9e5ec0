#include "machined/telemetry/node-console.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos::machined {
namespace {

// Catches: a record that the kernel cuts or splits, escape sequences on somebody's terminal.
TEST(KernelLogRecord, IsOneShortLine) {
  EXPECT_EQ("<6>[talos] hello\n", kernelLogRecord("hello"));
  EXPECT_EQ("<3>[talos] no\n", kernelLogRecord("no", Tone::kAlarm));
  EXPECT_EQ("<6>[talos] a?[31mb?c\n", kernelLogRecord("a\x1b[31mb\nc"));
  auto record = kernelLogRecord(kj::str(kj::repeat('x', 2000)));
  EXPECT_EQ(976u, record.size());
  EXPECT_TRUE(record.endsWith("x...\n"));
}

}  // namespace
}  // namespace talos::machined
