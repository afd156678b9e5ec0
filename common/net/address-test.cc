#include "common/net/address.h"

#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos {
namespace {

// Catches: a text that only looks like an address reaching the kernel as 0.0.0.0, and two spellings
// of one address taken for two machines.
TEST(AddressTest, ParsesAndPrints) {
  struct Case {
    kj::StringPtr text, canonical;
    bool loopback;
  };
  for (auto& c :
       {Case{"10.5.0.2", "10.5.0.2", false}, Case{"127.3.2.1", "127.3.2.1", true},
        Case{"::1", "::1", true}, Case{"FD00:0::0001", "fd00::1", false},
        Case{"::ffff:10.5.0.2", "10.5.0.2", false}, Case{"::ffff:127.0.0.1", "127.0.0.1", true}}) {
    auto address = Address::parse(c.text);
    EXPECT_EQ(address.toString(), c.canonical);
    EXPECT_EQ(address.isLoopback(), c.loopback) << c.text.cStr();
    EXPECT_TRUE(Address::of(*address.withPort(50000).get()) == address);
  }
  for (kj::StringPtr text : {"0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"}) {
    EXPECT_FALSE(Address::parse(text).isUnicast()) << text.cStr();
  }
  EXPECT_TRUE(Address::parse("fe80::1").isUnicast());
  for (kj::StringPtr text :
       {""_kj, "node1"_kj, "10.5.0"_kj, "10.5.0.2:50000"_kj, "[::1]"_kj, "010.0.0.1"_kj,
        "10.0.0.256"_kj, " 10.0.0.1"_kj, "fe80::1%eth0"_kj, "10.0.0.1\0x"_kj}) {
    EXPECT_TRUE(Address::tryParse(text) == nullptr) << text.cStr();
  }
}

}  // namespace
}  // namespace talos
