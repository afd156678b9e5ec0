#include "common/etcd/address-elections.h"

#include <gtest/gtest.h>

namespace talos::etcd {
namespace {

KeyValue candidateKey(kj::StringPtr address, kj::StringPtr lease, kj::StringPtr value,
                      Revision created) {
  KeyValue kv;
  kv.key = kj::str(kAddressElections, address, '/', lease);
  kv.value = kj::str(value);
  kv.createRevision = created;
  return kv;
}

// Catches: the first key by name instead of the oldest one; a node that has released the address;
// an IPv6 address whose candidates count as candidates of several addresses.
TEST(AddressElections, OldestKeyThatIsNotReleasedHolds) {
  auto keys =
      kj::arr(candidateKey("10.0.0.1", "a1", "n1", 9), candidateKey("10.0.0.1", "b2", "n2", 7),
              candidateKey("10.0.0.1", "c3", kReleased, 3), candidateKey("fd00::1", "d4", "n3", 5),
              candidateKey("fd00::1", "e5", "n1", 6));
  auto holders = addressHolders(keys);
  ASSERT_EQ(2u, holders.size());
  EXPECT_STREQ("n2", holders[0].cStr());
  EXPECT_STREQ("n3", holders[1].cStr());
}

// Catches: a holder in an election without candidates.
TEST(AddressElections, WithoutCandidatesThereIsNoHolder) {
  auto keys = kj::arr(candidateKey("10.0.0.1", "a1", kReleased, 9));
  EXPECT_EQ(0u, addressHolders(keys).size());
}

}  // namespace
}  // namespace talos::etcd
