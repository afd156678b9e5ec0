#include "trustd/certificate-expiry.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos::trustd {
namespace {

const kj::Date kNow = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

kj::String taken(Expiry& expiry, kj::Date now) {
  kj::Vector<kj::String> result;
  for (;;) {
    KJ_IF_MAYBE (due, expiry.takeDue(now)) {
      result.add(kj::mv(due->serial));
    } else {
      return kj::strArray(result, " ");
    }
  }
}

// Catches: records that stay for ever, or go while their certificate can still be used.
TEST(Expiry, ARecordGoesADayAfterItsCertificate) {
  Expiry expiry;
  EXPECT_TRUE(expiry.add("0b", kNow + 2 * kj::HOURS));
  EXPECT_TRUE(expiry.add("0a", kNow + 1 * kj::HOURS));
  EXPECT_TRUE(expiry.add("00ff", kNow + 3 * kj::HOURS));
  EXPECT_EQ(taken(expiry, kNow + 24 * kj::HOURS), "");
  EXPECT_EQ(taken(expiry, kNow + 26 * kj::HOURS), "0a 0b");
  EXPECT_EQ(taken(expiry, kNow + 87'600 * kj::HOURS), "00ff");
  EXPECT_EQ(expiry.size(), 0u);
}

TEST(Expiry, OfTooManyTheFirstToEndGo) {
  Expiry expiry(2);
  for (auto hours : {3, 1, 2, 4}) {
    EXPECT_TRUE(expiry.add(kj::str("0", hours), kNow + hours * kj::HOURS));
  }
  EXPECT_EQ(taken(expiry, kNow), "01 02");
  EXPECT_EQ(expiry.size(), 2u);
}

TEST(Expiry, WhatIsNoSerialNumberIsNotTaken) {
  Expiry expiry;
  for (auto text : {"", "xy", "0", "000102030405060708090a0b0c0d0e0f10"}) {
    EXPECT_FALSE(expiry.add(text, kNow)) << text;
  }
  EXPECT_TRUE(expiry.add("000102030405060708090a0b0c0d0e0f", kNow));
  EXPECT_FALSE(expiry.add("000102030405060708090a0b0c0d0e0f", kNow));
}

}  // namespace
}  // namespace talos::trustd
