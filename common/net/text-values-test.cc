#include "common/net/text-values.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::config {
namespace {

// Catches: units that are mixed up; texts that are not durations; numbers that overflow.
TEST(ConfigValue, ReadsDurations) {
  auto nanoseconds = [](kj::StringPtr text) {
    KJ_IF_MAYBE (value, parseDuration(text)) return *value / kj::NANOSECONDS;
    return int64_t(-1);
  };
  EXPECT_EQ(0, nanoseconds("0"));
  EXPECT_EQ(7, nanoseconds("7ns"));
  EXPECT_EQ(1'500, nanoseconds("1.5us"));
  EXPECT_EQ(3'000, nanoseconds("3\xc2\xb5s"));
  EXPECT_EQ(20'000'000, nanoseconds("20ms"));
  EXPECT_EQ(5'400'000'000'000, nanoseconds("1h30m"));
  EXPECT_EQ(8'760 * 3'600'000'000'000, nanoseconds("8760h"));
  for (auto bad : {"", "5", "s", "5 s", "-5s", "5d", "1h30", "h1", "1..5s", "99999999h", "5S"})
    EXPECT_EQ(-1, nanoseconds(bad)) << bad;
}

// Catches: a line break or a control character that reaches a header of HTTP.
TEST(ConfigValue, VisibleCharacters) {
  for (auto good : {"a", "~", "!", "abcdef.0123456789abcdef", "A-Token_of+Upper/Case.Letters=="})
    EXPECT_TRUE(isVisible(good)) << good;
  for (auto bad : {"", " ", "a b", "a\n", "a\r", "\ta", "\x7f", "k\xc3\xa4se", "\x1b[1m"})
    EXPECT_FALSE(isVisible(bad)) << bad;
}

// Catches: powers of 1000 and 1024 that are mixed up, sizes beyond 64 bits, units in one case only.
TEST(ConfigValue, ReadsSizes) {
  auto octets = [](kj::StringPtr text) { return parseSize(text).orDefault(uint64_t(-1)); };
  EXPECT_EQ(0u, octets("0"));
  EXPECT_EQ(1234u, octets("1234"));
  EXPECT_EQ(10u, octets("10B"));
  EXPECT_EQ(10'000'000'000u, octets("10GB"));
  EXPECT_EQ(1'500'000u, octets("1.5 mb"));
  EXPECT_EQ(4u << 20, octets("4MiB"));
  EXPECT_EQ(4u << 10, octets("4ki"));
  EXPECT_EQ(2'000u, octets("2k"));
  for (auto bad : {"", "GB", "-1", "1 potato", "1GBB", "20EiB", "1  GB", "1iB", "0x10"})
    EXPECT_EQ(uint64_t(-1), octets(bad)) << bad;
}

// Catches: a sign that is read as another, or that turns the comparison round.
TEST(ConfigValue, ReadsRulesOfSizes) {
  auto admitted = [](kj::StringPtr text) {
    std::string all;
    KJ_IF_MAYBE (rule, parseSizeRule(text)) {
      for (auto size : {99u, 100u, 101u}) all += rule->admits(size) ? 'y' : 'n';
    }
    return all;
  };
  EXPECT_EQ("nyn", admitted("100"));
  EXPECT_EQ("nyn", admitted("== 100B"));
  EXPECT_EQ("nyy", admitted(">=0.1kB"));
  EXPECT_EQ("yyn", admitted("<= 100"));
  EXPECT_EQ("nny", admitted("> 100"));
  EXPECT_EQ("ynn", admitted("<100"));
  for (auto bad : {"", ">=", "=> 100", ">= x", "> = 100", "=100"})
    EXPECT_EQ("", admitted(bad)) << bad;
}

// Catches: paths that leave their directory, links with names that the kernel refuses.
TEST(ConfigValue, KnowsNamesAndPaths) {
  for (auto good : {"/var/lib", "/a", "/a/", "/..a/b"}) EXPECT_TRUE(isCleanPath(good)) << good;
  for (auto bad : {"", "/", "a", "/a/../b", "/..", "/a/.", "//a", "/a//b"})
    EXPECT_FALSE(isCleanPath(bad)) << bad;
  EXPECT_EQ("/a/b", withoutLastSlash("/a/b/"));
  EXPECT_EQ("/a/b", withoutLastSlash("/a/b"));
  for (auto good : {"eth0", "bond0.100", "123456789012345"}) EXPECT_TRUE(isLinkName(good)) << good;
  for (auto bad : {"", ".", "..", "a/b", "a b", "a:1", "1234567890123456"})
    EXPECT_FALSE(isLinkName(bad)) << bad;
  for (auto good : {"a:1", "10.0.0.1:51820", "[fd00::1]:1", "a.example.org:65535"})
    EXPECT_TRUE(isHostAndPort(good, true)) << good;
  for (auto bad : {"a", "a:0", "a:65536", "fd00::1:1", "[fd00::1]", "[10.0.0.1]:1", ":1", "a:"})
    EXPECT_FALSE(isHostAndPort(bad, true)) << bad;
  EXPECT_TRUE(isHostAndPort("docker.io", false));
  for (auto good : {"a", "a.", "a-b.c_d", "1.2.3.4.5"}) EXPECT_TRUE(isDnsName(good)) << good;
  // Catches: dots that are taken off as long as there are some, each with a copy of the rest.
  auto dots = kj::str("a", kj::repeat('.', 300'000));
  for (kj::StringPtr bad :
       {""_kj, "."_kj, "a.."_kj, "a..b"_kj, "10.0.0.1"_kj, "10.0.0.1."_kj, "*.a"_kj, dots.asPtr()})
    EXPECT_FALSE(isDnsName(bad)) << std::string(bad.begin(), kj::min(bad.size(), size_t(20)));
  EXPECT_TRUE(isUnicastMac("02:00:00:00:00:01"));
  for (auto bad : {"", "02:00:00:00:00", "01:00:5e:00:00:01", "00:00:00:00:00:00",
                   "02:00:00:00:00:0g", "02.00.00.00.00.01"})
    EXPECT_FALSE(isUnicastMac(bad)) << bad;
}

// Catches: a DUID that is cut or misread because of its colons; one of a length that no server
// takes.
TEST(ConfigValue, DuidsAreOctetsInHexadecimal) {
  const kj::byte octets[] = {0, 3, 0, 1, 0xfe, 0x5a};
  for (auto good : {"00:03:00:01:fe:5a", "00030001fe5a", "00030001FE5A"}) {
    KJ_IF_MAYBE (read, parseDuid(good)) {
      EXPECT_TRUE(*read == kj::ArrayPtr<const kj::byte>(octets)) << good;
    } else {
      ADD_FAILURE() << good;
    }
  }
  for (auto bad : {"", "00:03", "0003", "00:03:", "00:03:1", "00:0301", "0003:01", "00:03:0g",
                   "00-03-00", "0003001", "mac"})
    EXPECT_TRUE(parseDuid(bad) == nullptr) << bad;
  EXPECT_TRUE(parseDuid(kj::str(kj::repeat('a', 2 * 130))) != nullptr);
  EXPECT_TRUE(parseDuid(kj::str(kj::repeat('a', 2 * 131))) == nullptr);
}

// Catches: a host name that the config takes and the kernel, DNS or Kubernetes does not.
TEST(ConfigValue, HostNamesAreThoseOfRfc1123) {
  auto label = [](size_t n) { return kj::str(kj::repeat('a', n)); };
  auto three = kj::str(label(63), ".", label(63), ".", label(63), ".");
  for (auto& good : {kj::str("a"), kj::str("Node-1.example.org"), kj::str("1"), label(63),
                     kj::str(three, label(61))}) {
    EXPECT_TRUE(hostNameProblem(good) == nullptr) << good.cStr();
  }
  struct {
    kj::String name;
    kj::StringPtr problem;
  } bad[] = {
      {kj::str("Bad_Name"), "only letters, digits, '-' and '.' are allowed"},
      {kj::str("a b"), "only letters, digits, '-' and '.' are allowed"},
      {kj::str("a/b"), "only letters, digits, '-' and '.' are allowed"},
      {kj::str("\xc3\xa4"), "only letters, digits, '-' and '.' are allowed"},
      {kj::str(), "it has an empty label"},
      {kj::str("a..b"), "it has an empty label"},
      {kj::str(".a"), "it has an empty label"},
      {kj::str("a."), "it has an empty label"},
      {kj::str("-a"), "a label cannot begin or end with '-'"},
      {kj::str("a.b-"), "a label cannot begin or end with '-'"},
      {kj::str("10.5.0.2"), "it is an IP address"},
      {label(64), "a label has 64 characters; at most 63"},
      {kj::str(three, label(62)), "it has 254 characters; at most 253"},
  };
  for (auto& row : bad) EXPECT_EQ(row.problem, hostNameProblem(row.name).orDefault(kj::String()));
}

}  // namespace
}  // namespace talos::config
