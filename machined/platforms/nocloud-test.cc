#include "machined/platforms/nocloud.h"

#include <gtest/gtest.h>

namespace talos::platforms {
namespace {

std::string seedOf(kj::StringPtr serial) {
  auto seed = nocloudSeed(serial);
  return kj::str(seed.server, "|", seed.hostname, "|", seed.instanceId).cStr();
}

// Catches: '=' in a value, serial numbers of other machines, a server of another scheme.
TEST(Nocloud, SerialNumbers) {
  EXPECT_EQ(seedOf("ds=nocloud-net;s=http://x/a;h=n1"), "http://x/a/|n1|");
  EXPECT_EQ(seedOf("ds=nocloud;s=http://x/?a=b/"), "http://x/?a=b/||");
  EXPECT_EQ(seedOf("ds=nocloud;local-hostname=n1;instance-id=i-1"), "|n1|i-1");
  EXPECT_EQ(seedOf("ds=nocloud;s=ftp://x/"), "||");
  EXPECT_EQ(seedOf("s=http://x/"), "||");
  EXPECT_EQ(seedOf("ds=other;s=http://x/"), "||");
  EXPECT_EQ(seedOf("SN0001"), "||");
  EXPECT_EQ(seedOf(""), "||");
}

}  // namespace
}  // namespace talos::platforms
