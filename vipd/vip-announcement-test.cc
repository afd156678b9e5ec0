#include "vipd/vip-announcement.h"

#include <gtest/gtest.h>
#include <kj/encoding.h>

namespace talos::vipd {
namespace {

constexpr Mac kMac = {0x52, 0x54, 0, 1, 2, 3};

// Catches: a misplaced field, which makes hosts drop the packet silently.
TEST(Announcement, ArpByteForByte) {
  auto ip = Ip::require("10.5.0.50");
  EXPECT_STREQ(kj::encodeHex(gratuitousArp(kMac, ip, ArpKind::kReply)).cStr(),
               "0001080006040002"
               "525400010203"
               "0a050032"
               "525400010203"
               "0a050032");
  EXPECT_STREQ(kj::encodeHex(gratuitousArp(kMac, ip, ArpKind::kRequest)).cStr(),
               "0001080006040001"
               "525400010203"
               "0a050032"
               "ffffffffffff"
               "0a050032");
}

// Catches: an advertisement that does not override the neighbours' caches, or that claims to be a
// router's or an answer.
TEST(Announcement, AdvertisementByteForByte) {
  EXPECT_STREQ(kj::encodeHex(unsolicitedAdvertisement(kMac, Ip::require("fd00::50"))).cStr(),
               "8800000020000000"
               "fd000000000000000000000000000050"
               "0201525400010203");
}

// Catches: announcing only once, or without end at short intervals.
TEST(Announcement, ComesOftenAtFirstAndEachMinuteThen) {
  std::string seconds;
  for (unsigned n = 0; n < 8; ++n) {
    seconds += std::to_string(announcementAt(n) / kj::SECONDS) + " ";
  }
  EXPECT_EQ(seconds, "0 1 2 4 8 68 128 188 ");
}

}  // namespace
}  // namespace talos::vipd
