// The addresses in a worker's certificate, with a virtual clock and a model of trustd.
#include "apid/join/test-joiner.h"

namespace talos::apid {

using testing::JoinerTest;

// Catches: a node with several addresses that can be called at one; an address that appears later
// and waits for the renewal; endless requests for an address that cannot reach trustd.
TEST_F(JoinerTest, AsksForAllAddressesFromWhichTrustdIsReached) {
  for (auto text : {"fd00::5", "10.7.0.5"}) reachable.insert(kj::str(text));
  auto far = Ip::require("192.0.2.5"), local = Ip::require("fe80::5");
  auto& j = start();
  j.setClock(true, 1);
  j.setIdentity(nullptr);
  j.setAddresses(kj::arr(own, Ip::require("fd00::5"), far, local));
  j.setConfig(config());
  scope.poll();
  EXPECT_EQ(storedCount, 1u);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5");
  pass(5 * kj::MINUTES);
  EXPECT_EQ(storedCount, 1u);

  j.setAddresses(kj::arr(own, Ip::require("fd00::5"), far, local, Ip::require("10.7.0.5")));
  pass(29 * kj::SECONDS);
  EXPECT_EQ(storedCount, 1u) << "more may come";
  pass(2 * kj::SECONDS);
  EXPECT_EQ(storedCount, 2u);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5 10.7.0.5");
  pass(5 * kj::MINUTES);
  EXPECT_EQ(storedCount, 2u);

  // An address is removed.
  j.setAddresses(kj::arr(own, Ip::require("fd00::5")));
  pass(1 * kj::SECONDS);
  EXPECT_EQ(storedCount, 3u);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5");
}

// Catches: a certificate that is lost, or a trustd that is called all the time, because an address
// appeared while no trustd answered.
TEST_F(JoinerTest, ANewAddressIsAskedForWhenTrustdAnswersAgain) {
  auto& j = join();
  EXPECT_EQ(storedCount, 1u);
  reachable.insert(kj::str("fd00::5"));
  for (auto server : {"10.5.0.2", "10.5.0.3"}) down.insert(kj::str(server));
  j.setAddresses(kj::arr(own, Ip::require("fd00::5")));
  asked.clear();
  pass(5 * kj::MINUTES);
  EXPECT_EQ(storedCount, 1u);
  EXPECT_TRUE(now().ready);
  EXPECT_GT(asked.size(), 1u);
  EXPECT_LT(asked.size(), 20u);
  down.clear();
  pass(20 * kj::MINUTES);
  EXPECT_EQ(storedCount, 2u);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5");
}

}  // namespace talos::apid
