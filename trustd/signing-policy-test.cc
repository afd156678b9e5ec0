#include "trustd/signing-policy.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/testing/printing.h"
#include "common/testing/test-ip.h"

namespace talos::trustd {
namespace {

kj::Date at(int64_t seconds) {
  return kj::UNIX_EPOCH + seconds * kj::SECONDS;
}

pki::RequestInfo request(std::initializer_list<kj::StringPtr> names,
                         std::initializer_list<kj::StringPtr> addresses) {
  pki::RequestInfo info;
  for (auto name : names) info.dnsNames.add(kj::str(name));
  for (auto address : addresses) info.addresses.add(kj::str(address));
  return info;
}

Reserved controlPlane() {
  auto hosts = kj::arr(kj::str("10.0.0.1"), kj::str("::ffff:10.0.0.2"), kj::str("cp1"),
                       kj::str("api.example.org"), kj::str("*.wild.example.org"));
  return reservedBy(hosts, "cluster.local");
}

struct Row {
  const char* what;
  pki::RequestInfo info;
  kj::Maybe<ErrorKind> refused;  // nullptr: granted
  bool anyAddress = false;
  const char* caller = "10.0.0.9";
  std::vector<const char*> proven = {};
};

// Catches: a missing rule; each row breaks exactly one.
TEST(Policy, OnlyProvedContentIsGranted) {
  auto denied = ErrorKind::kPermissionDenied;
  auto invalid = ErrorKind::kInvalidArgument;
  Row rows[] = {
      {"its own address", request({}, {"10.0.0.9"}), nullptr},
      {"its own address and a name", request({"w1"}, {"10.0.0.9"}), nullptr},
      {"no address", request({"w1"}, {}), denied},
      {"another address", request({"w1"}, {"10.0.0.10"}), denied},
      {"another address besides its own", request({}, {"10.0.0.9", "10.0.0.10"}), denied},
      {"the control plane's address", request({}, {"10.0.0.9", "10.0.0.1"}), denied},
      {"the control plane's address behind translation", request({}, {"10.0.0.1"}), denied, true},
      {"an address behind translation", request({}, {"192.168.7.7"}), nullptr, true},
      {"nothing behind translation", request({"w1"}, {}), invalid, true},
      {"loopback behind translation", request({}, {"127.0.0.1"}), invalid, true},
      {"a group's address behind translation", request({}, {"ff02::1"}), invalid, true},
      {"all addresses behind translation", request({}, {"0.0.0.0"}), invalid, true},
      {"the control plane's name", request({"cp1"}, {"10.0.0.9"}), denied},
      {"the same in capitals", request({"CP1"}, {"10.0.0.9"}), denied},
      {"the same with a dot behind it", request({"cp1."}, {"10.0.0.9"}), denied},
      {"the same with two dots behind it", request({"cp1.."}, {"10.0.0.9"}), invalid},
      {"a name that a wildcard of the control plane covers",
       request({"x.wild.example.org"}, {"10.0.0.9"}), denied},
      {"the control plane's address as one of IPv6", request({}, {"::ffff:10.0.0.1"}), invalid,
       true},
      {"a name below the control plane's", request({"x.api.example.org"}, {"10.0.0.9"}), denied},
      {"a name that only ends alike", request({"myapi.example.org"}, {"10.0.0.9"}), nullptr},
      {"a service's short name", request({"kubernetes"}, {"10.0.0.9"}), denied},
      {"a service", request({"kubernetes.default.svc"}, {"10.0.0.9"}), denied},
      {"the API of machines for pods", request({"talos.default"}, {"10.0.0.9"}), denied},
      {"a service with the cluster's domain",
       request({"kubernetes.default.svc.cluster.local"}, {"10.0.0.9"}), denied},
      {"localhost", request({"localhost"}, {"10.0.0.9"}), denied},
      {"a wildcard", request({"*.example.org"}, {"10.0.0.9"}), invalid},
      {"no name at all", request({""}, {"10.0.0.9"}), invalid},
      {"an address as a name", request({"10.0.0.10"}, {"10.0.0.9"}), invalid},
      {"no address in fact", request({}, {"10.0.0.9", "ten"}), invalid},
      {"IPv6 of its own", request({}, {"fd00:0::9"}), nullptr, false, "fd00::9"},
      {"the control plane's address from that address", request({}, {"10.0.0.1"}), denied, false,
       "10.0.0.1"},
      {"the same behind translation", request({}, {"10.0.0.1"}), denied, true, "10.0.0.1"},
      {"the control plane's address that the config has as an IPv6 address",
       request({}, {"10.0.0.2"}), denied, false, "10.0.0.2"},
      {"loopback from loopback", request({}, {"127.0.0.1"}), invalid, false, "127.0.0.1"},
      {"another loopback from there", request({}, {"127.7.7.7"}), invalid, false, "127.7.7.7"},
      {"loopback of IPv6 from there", request({}, {"::1"}), invalid, false, "::1"},
      {"no address from none", request({}, {"0.0.0.0"}), invalid, false, "0.0.0.0"},
      {"another address that it has proved",
       request({}, {"10.0.0.9", "fd00::9"}),
       nullptr,
       false,
       "10.0.0.9",
       {"fd00::9"}},
      {"a third one that it has not",
       request({}, {"10.0.0.9", "fd00::9", "10.0.0.10"}),
       denied,
       false,
       "10.0.0.9",
       {"fd00::9"}},
      {"a proved address, and not the one that it calls from",
       request({}, {"fd00::9"}),
       denied,
       false,
       "10.0.0.9",
       {"fd00::9"}},
      {"the control plane's address that it has proved",
       request({}, {"10.0.0.9", "10.0.0.1"}),
       denied,
       false,
       "10.0.0.9",
       {"10.0.0.1"}},
      {"loopback that it has proved",
       request({}, {"10.0.0.9", "127.0.0.1"}),
       invalid,
       false,
       "10.0.0.9",
       {"127.0.0.1"}},
  };
  auto reserved = controlPlane();
  NameBook book;
  for (auto& row : rows) {
    kj::Maybe<ErrorKind> got;
    auto failure = kj::runCatchingExceptions([&] {
      kj::Vector<Ip> proven;
      for (auto text : row.proven) proven.add(ip(text));
      decide(row.info, ip(row.caller), reserved, book, row.anyAddress, at(0), at(100), proven);
    });
    KJ_IF_MAYBE (e, failure) got = kindOf(*e);
    EXPECT_TRUE(got == row.refused) << row.what;
  }
}

TEST(Policy, TooManyNamesAreRefused) {
  pki::RequestInfo info;
  info.addresses.add(kj::str("10.0.0.9"));
  for (size_t i = 0; i < kMostNames; ++i) info.dnsNames.add(kj::str("w", i));
  auto failure = kj::runCatchingExceptions(
      [&] { decide(info, ip("10.0.0.9"), controlPlane(), NameBook(), false, at(0), at(100)); });
  EXPECT_TRUE(failure != nullptr);
  info.dnsNames.removeLast();
  auto grant = decide(info, ip("10.0.0.9"), controlPlane(), NameBook(), false, at(0), at(100));
  EXPECT_EQ(grant.dnsNames.size(), kMostNames - 1);
}

TEST(Policy, GrantsAreCanonicalAndUnique) {
  auto grant = decide(request({"W1", "w1", "w1."}, {"fd00:0:0::9", "fd00::9"}), ip("fd00::9"),
                      controlPlane(), NameBook(), false, at(0), at(100));
  ASSERT_EQ(grant.dnsNames.size(), 1u);
  EXPECT_EQ(grant.dnsNames[0], "w1");
  ASSERT_EQ(grant.addresses.size(), 1u);
  EXPECT_EQ(grant.addresses[0], "fd00::9");
}

// Catches: a worker that takes over another's name, and a worker that cannot renew its own.
TEST(NameBook, ANameIsItsHoldersAsLongAsTheCertificateIsValid) {
  NameBook book;
  book.enter("w1", ip("10.0.0.9"), at(0), at(100));
  auto ask = [&](kj::StringPtr address, int64_t now) {
    return kj::runCatchingExceptions([&] {
             decide(request({"w1"}, {address}), ip(address), controlPlane(), book, false, at(now),
                    at(now + 100));
           }) == nullptr;
  };
  EXPECT_TRUE(ask("10.0.0.9", 50));
  EXPECT_FALSE(ask("10.0.0.10", 50));
  EXPECT_TRUE(ask("10.0.0.10", 100));
}

// Catches: records from before a restart that are entered in another order than they were made.
TEST(NameBook, TheNewestCertificateOfANameCounts) {
  NameBook book;
  book.enter("w1", ip("10.0.0.10"), at(0), at(200));
  book.enter("w1", ip("10.0.0.9"), at(0), at(100));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.9"), at(150), at(250)) == ip("10.0.0.10"));
  book.enter("w1", ip("10.0.0.10"), at(0), at(300));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.9"), at(250), at(350)) == ip("10.0.0.10"));
}

// Catches: a name that is taken for ten years because a clock was wrong for a minute.
TEST(NameBook, ACertificateOfAnotherTimeTakesNoName) {
  constexpr int64_t kTenYears = 315'576'000;
  NameBook book;
  book.enter("w1", ip("10.0.0.9"), at(kTenYears), at(kTenYears + 100));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.10"), at(50), at(150)) == nullptr);
  book.enter("w1", ip("10.0.0.10"), at(0), at(100));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.9"), at(50), at(150)) == ip("10.0.0.10"));
}

// Catches: a name that two machines get because the clock was set back by an hour: the first one's
// certificate becomes valid again while the second one's still is.
TEST(NameBook, ACertificateThatBeginsSoonHasItsName) {
  NameBook book;
  book.enter("w1", ip("10.0.0.9"), at(3600), at(3600 + 86'400));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.10"), at(0), at(86'400)) == ip("10.0.0.9"));
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.9"), at(0), at(86'400)) == nullptr);
  EXPECT_TRUE(book.holder("w1", ip("10.0.0.10"), at(0), at(3600)) == nullptr);
}

// Catches: an unbounded book; a book that forgets a name of a holder with few, for a holder with
// many.
TEST(NameBook, OfTooManyTheHolderWithMostLosesThoseThatEndFirst) {
  NameBook book({.most = 4, .perHolder = 4, .fair = 1});
  book.enter("a", ip("10.0.0.2"), at(0), at(100));
  book.enter("b", ip("fd00::3"), at(0), at(300));
  book.enter("c", ip("fd00::4"), at(0), at(200));  // the same subnet
  book.enter("d", ip("10.0.0.5"), at(0), at(400));
  EXPECT_TRUE(book.quotaError(kj::arr(kj::str("e")), ip("10.0.0.6"), at(0)) == nullptr);
  book.enter("e", ip("10.0.0.6"), at(0), at(500));
  EXPECT_EQ(book.size(), 4u);
  EXPECT_TRUE(book.holder("c", ip("10.0.0.9"), at(0), at(100)) == nullptr);
  EXPECT_TRUE(book.holder("a", ip("10.0.0.9"), at(0), at(100)) != nullptr);
  // Now no holder has more than one: a new holder is refused, a known one is not.
  EXPECT_TRUE(book.quotaError(kj::arr(kj::str("f")), ip("10.0.0.7"), at(0)) != nullptr);
  EXPECT_TRUE(book.quotaError(kj::arr(kj::str("a")), ip("10.0.0.2"), at(0)) == nullptr);
  // until a name expires
  EXPECT_TRUE(book.quotaError(kj::arr(kj::str("f")), ip("10.0.0.7"), at(100)) == nullptr);
  book.enter("f", ip("10.0.0.7"), at(100), at(500));
  EXPECT_EQ(book.size(), 4u);
  EXPECT_TRUE(book.holder("b", ip("10.0.0.9"), at(0), at(300)) != nullptr) << "a valid one went";
}

// Catches: one holder that fills the whole book; a quota that counts expired names, or names that
// the holder already has.
TEST(NameBook, AHolderHasItsQuota) {
  NameBook book({.most = 100, .perHolder = 3, .fair = 1});
  auto room = [&](kj::StringPtr name, kj::StringPtr address, int64_t now) {
    return book.quotaError(kj::arr(kj::str(name)), ip(address), at(now)) == nullptr;
  };
  for (auto i : {1, 2, 3}) {
    auto name = kj::str("w", i);
    auto address = kj::str("fd00::", i);
    EXPECT_TRUE(room(name, address, 0));
    book.enter(name, ip(address), at(0), at(100 * i));
  }
  EXPECT_FALSE(room("w4", "fd00::4", 0));
  EXPECT_TRUE(room("w1", "fd00::1", 0)) << "renewal";
  EXPECT_TRUE(room("w4", "fd00:0:0:1::4", 0)) << "another subnet";
  EXPECT_TRUE(room("w4", "fd00::4", 100)) << "one is over";
}

}  // namespace
}  // namespace talos::trustd
