// The names that a worker requests after trustd has refused some, and its addresses.
#include "apid/join/test-joiner.h"

namespace talos::apid {
namespace {

using ::testing::HasSubstr;
using testing::JoinerTest;
using ::testing::Not;
using testing::text;

// Catches: a worker without an API because its host name was another machine's.
TEST_F(JoinerTest, ARefusedNameLeavesTheAddress) {
  refuseNames = true;
  auto& j = join();
  EXPECT_EQ(storedCount, 1u) << "the next endpoint was asked for the address alone";
  EXPECT_EQ(held().dnsNames.size(), 0u);
  EXPECT_TRUE(now().ready);
  EXPECT_THAT(text(now().message), HasSubstr("it names the address only: the name w1"));
  pass(1 * kj::HOURS);
  EXPECT_EQ(storedCount, 1u);
  refuseNames = false;
  auto renamed = config();
  renamed.dnsNames[0] = kj::str("w2");
  j.setConfig(kj::mv(renamed));
  scope.poll();
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w2") << "another name is not the refused one";
}

// Catches: a worker without its host name, whose kubelet waits for ever, because of another name.
TEST_F(JoinerTest, ARefusedNameLeavesTheHostName) {
  auto named = [&] {
    auto w = config();
    w.commonName = kj::str("W1.lb.example.org");
    for (auto name : {"alias.example.org"_kj, "w1.lb.example.org"_kj}) {
      w.dnsNames.add(kj::str(name));
    }
    w.addresses.add(kj::str("10.9.9.9"));
    return w;
  };
  notSigned.insert(kj::str("alias.example.org"));
  auto& j = join(named());
  pass(5 * kj::SECONDS);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1 w1.lb.example.org");
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5");
  EXPECT_THAT(text(now().message),
              HasSubstr("it names the host name, with and without its domain, and the address "
                        "only: the name alias.example.org is not signed"));
  notSigned.insert(kj::str("w1.lb.example.org"));
  j.setConfig(config());
  scope.poll();
  EXPECT_EQ(held().dnsNames.size(), 1u);
  j.setConfig(named());
  pass(10 * kj::SECONDS);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1");
  EXPECT_THAT(text(now().message), HasSubstr("it names the host name and the address only: "));
  EXPECT_TRUE(now().ready);
  EXPECT_EQ(pki::inspectRequest(lastRequest).commonName, "w1");
}

// Catches: a worker that never gets an API, because its config has a name that no trustd signs.
TEST_F(JoinerTest, ANameThatIsNeverSignedLeavesTheHostName) {
  auto w = config();
  w.dnsNames.add(kj::str("*.example.org"));
  notSigned.insert(kj::str("*.example.org"));
  refusalKind = ErrorKind::kInvalidArgument;
  join(kj::mv(w));
  pass(5 * kj::SECONDS);
  ASSERT_EQ(storedCount, 1u);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1");
  EXPECT_THAT(text(now().message), HasSubstr("the name *.example.org is not signed"));
}

// Catches: a kubelet that waits half a day for a name that has been free for long; a trustd that is
// called without a pause, or that signs the same again and again.
TEST_F(JoinerTest, AMissingHostNameIsAskedForAgainWithinMinutes) {
  refuseNames = true;
  join();
  EXPECT_EQ(held().dnsNames.size(), 0u);
  auto before = asked.size();
  pass(3 * kj::HOURS);
  EXPECT_EQ(storedCount, 1u) << "what there is stays";
  EXPECT_GT(asked.size(), before + 15);
  EXPECT_LT(asked.size(), before + 25);
  EXPECT_TRUE(now().ready);
  for (auto& endpoint : {"10.5.0.2"_kj, "10.5.0.3"_kj}) down.insert(kj::str(endpoint));
  pass(20 * kj::MINUTES);
  EXPECT_TRUE(now().ready);
  down.clear();
  refuseNames = false;
  pass(Joiner::kLongestNamesPause);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1");
  EXPECT_EQ(storedCount, 2u);
  EXPECT_THAT(text(now().message), Not(HasSubstr("only")));
}

// Catches: a worker of a cluster that is not bootstrapped without an API, or with only one of its
// addresses; a kubelet that waits for minutes for its host name after the bootstrap; a trustd that
// is called without a pause, or for the same again and again.
TEST_F(JoinerTest, NamesThatAreNotSignedYetAreAskedForAgainWithinHalfAMinute) {
  signsNoNames = true;
  reachable.insert(kj::str("fd00::5"));
  auto& j = join();
  j.setAddresses(kj::arr(own, Ip::require("fd00::5")));
  pass(1 * kj::MINUTES);
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5");
  EXPECT_EQ(held().dnsNames.size(), 0u);
  EXPECT_TRUE(now().ready);
  EXPECT_THAT(text(now().message),
              HasSubstr("it names the addresses only: the name w1 is not signed yet; all names"));
  auto before = asked.size(), certificates = size_t(storedCount);
  pass(1 * kj::HOURS);
  EXPECT_EQ(storedCount, certificates);
  EXPECT_NEAR(asked.size() - before, 120, 5);
  signsNoNames = false;
  pass(Joiner::kLongestEarlyPause);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1");
  EXPECT_EQ(kj::strArray(held().addresses, " "), "10.5.0.5 fd00::5");
  EXPECT_THAT(text(now().message), Not(HasSubstr("only")));
}

// Catches: a worker that loses its names for a while because it renews when the control plane has
// just started; a worker without a valid certificate for this reason.
TEST_F(JoinerTest, NamesThatItHasAreKeptUntilTheyAreSignedAgain) {
  join();
  signsNoNames = true;
  pass(23 * kj::HOURS);
  EXPECT_EQ(storedCount, 1u);
  EXPECT_EQ(held().dnsNames.size(), 1u);
  EXPECT_TRUE(now().ready);
  EXPECT_THAT(text(now().message), HasSubstr("is not signed yet; retry in 30 s"));
  pass(2 * kj::HOURS);
  EXPECT_EQ(held().dnsNames.size(), 0u) << "the address alone is better than nothing";
  EXPECT_TRUE(now().ready);
  signsNoNames = false;
  pass(Joiner::kLongestEarlyPause);
  EXPECT_EQ(held().dnsNames.size(), 1u);
}

// Catches: names that are given up because of another refusal.
TEST_F(JoinerTest, WhereTheAddressAloneIsRefusedTooTheNamesAreAskedForAgain) {
  refusal = KJ_EXCEPTION(FAILED, "PermissionDenied: this address is not yours");
  join();
  ASSERT_EQ(asked.size(), 2u) << "with the names, and without them";
  EXPECT_EQ(storedCount, 0u);
  refusal = nullptr;
  pass(5 * kj::SECONDS);
  EXPECT_EQ(kj::strArray(held().dnsNames, " "), "w1");
}

// Catches: a machine whose pauses stay long after a new input.
TEST_F(JoinerTest, WhatIsNewIsTriedAsIfForTheFirstTime) {
  down.insert(kj::str("10.5.0.2"));
  down.insert(kj::str("10.5.0.3"));
  auto& j = join();
  pass(60 * kj::SECONDS);
  EXPECT_GT(now().failures, 2u);
  auto named = config();
  named.dnsNames.add(kj::str("w1.example.org"));
  j.setConfig(kj::mv(named));
  scope.poll();
  EXPECT_EQ(now().failures, 1u);
  pass(60 * kj::SECONDS);
  EXPECT_GT(now().failures, 2u);
  j.setClock(true, 2);
  scope.poll();
  EXPECT_EQ(now().failures, 1u);
}

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

}  // namespace
}  // namespace talos::apid
