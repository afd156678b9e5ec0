#include "machined/logs/node-console.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos::machined {
namespace {

// Catches: a record that the kernel cuts or splits, escape sequences on a user's terminal.
TEST(KernelLogRecord, IsOneShortLine) {
  EXPECT_EQ("<6>[talos] hello\n", kernelLogRecord("hello"));
  EXPECT_EQ("<3>[talos] no\n", kernelLogRecord("no", Tone::kAlarm));
  EXPECT_EQ("<6>[talos] a?[31mb c\n", kernelLogRecord("a\x1b[31mb\nc"));
  auto record = kernelLogRecord(kj::str(kj::repeat('x', 2000)));
  EXPECT_EQ(976u, record.size());
  EXPECT_TRUE(record.endsWith("x...\n"));
}

// Catches: a kernel's level on the console of a container, a line without its time, and a line that
// draws on a terminal.
TEST(ConsoleLine, HasItsTime) {
  auto at = kj::UNIX_EPOCH + 1'000'000'000 * kj::SECONDS;
  EXPECT_EQ("[talos] 2001/09/09 01:46:40 hello\n", consoleLine("hello", at));
  EXPECT_EQ("[talos] 2001/09/09 01:46:40 a?[31m\n", consoleLine("a\x1b[31m", at));
}

}  // namespace
}  // namespace talos::machined
