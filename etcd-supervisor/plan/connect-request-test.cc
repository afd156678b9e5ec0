#include "etcd-supervisor/plan/connect-request.h"

#include <gtest/gtest.h>

namespace talos::supervisor {
namespace {

kj::ArrayPtr<const char> bytes(kj::StringPtr text) {
  return text.asArray();
}

// Catches: a head that is cut in the middle, and bytes of TLS that are taken for a part of it.
TEST(ConnectRequest, HeadEndsWithTheEmptyLine) {
  EXPECT_TRUE(headSize(bytes("CONNECT 10.0.0.1:2380 HTTP/1.1\r\nHost: a\r\n")) == nullptr);
  auto whole = "CONNECT 10.0.0.1:2380 HTTP/1.1\r\n\r\n"_kj;
  EXPECT_EQ(whole.size(), KJ_ASSERT_NONNULL(headSize(bytes(kj::str(whole, "\x16\x03\x01")))));
}

TEST(ConnectRequest, TargetIsAnAddressWithAPort) {
  EXPECT_EQ("10.0.0.1:2380",
            connectTarget(bytes("CONNECT 10.0.0.1:2380 HTTP/1.1\r\n\r\n")).toString());
  EXPECT_EQ("[fd00::1]:2380",
            connectTarget(bytes("CONNECT [fd00::1]:2380 HTTP/1.1\r\n\r\n")).toString());
  for (auto wrong : {"GET / HTTP/1.1\r\n\r\n", "CONNECT name:2380 HTTP/1.1\r\n\r\n",
                     "CONNECT 10.0.0.1 HTTP/1.1\r\n\r\n", "CONNECT 10.0.0.1:0 HTTP/1.1\r\n\r\n",
                     "CONNECT ", "", "\r\n\r\n"}) {
    EXPECT_ANY_THROW(connectTarget(bytes(wrong))) << wrong;
  }
}

}  // namespace
}  // namespace talos::supervisor
