#include "trustd/issuance-quota.h"

#include <gtest/gtest.h>
#include <time.h>

#include <random>

#include "common/testing/printing.h"
#include "common/testing/sanitizers.h"
#include "common/testing/test-ip.h"

namespace talos::trustd {
namespace {

const kj::Date kNow = kj::UNIX_EPOCH + 20'000 * kj::DAYS;

IssuanceQuota::Record record(kj::StringPtr serial, kj::Date end, kj::StringPtr holder = "10.0.0.9",
                             kj::byte subject = 0, size_t bytes = 1) {
  return {.serial = kj::str(serial),
          .end = end,
          .holder = ip(holder),
          .subject = {subject},
          .bytes = bytes};
}

kj::String taken(IssuanceQuota& quota, kj::Date now) {
  kj::Vector<kj::String> result;
  for (;;) {
    KJ_IF_MAYBE (due, quota.takeDue(now)) {
      result.add(kj::mv(due->serial));
    } else {
      return kj::strArray(result, " ");
    }
  }
}

// Catches: records that stay for ever, or vanish while their certificate is still usable.
TEST(IssuanceQuota, ARecordGoesADayAfterItsCertificate) {
  IssuanceQuota quota;
  EXPECT_TRUE(quota.add(record("0b", kNow + 2 * kj::HOURS)));
  EXPECT_TRUE(quota.add(record("0a", kNow + 1 * kj::HOURS)));
  EXPECT_TRUE(quota.add(record("00ff", kNow + 3 * kj::HOURS)));
  EXPECT_EQ(taken(quota, kNow + 24 * kj::HOURS), "");
  EXPECT_EQ(taken(quota, kNow + 26 * kj::HOURS), "0a 0b");
  EXPECT_EQ(taken(quota, kNow + 87'600 * kj::HOURS), "00ff");
  EXPECT_EQ(quota.size(), 0u);
}

// Catches: a caller that displaces the record of a certificate, its own or another's, by requesting
// more.
TEST(IssuanceQuota, AHolderThatIsFullGetsNoMoreAndLosesNothing) {
  IssuanceQuota quota({.bytes = 100, .perHolder = 3, .fair = 1});
  for (auto i : {1, 2, 3}) {
    auto next = record(kj::str("0", i), kNow + i * kj::HOURS, "10.0.0.9", i);
    EXPECT_TRUE(quota.quotaError(next, 0, 0) == nullptr);
    quota.add(next);
  }
  auto fourth = record("04", kNow + 4 * kj::HOURS, "10.0.0.9", 4);
  EXPECT_TRUE(quota.quotaError(fourth, 0, 0) != nullptr);
  EXPECT_EQ(taken(quota, kNow), "");
  auto other = record("05", kNow + 4 * kj::HOURS, "10.0.0.10", 4);
  EXPECT_TRUE(quota.quotaError(other, 0, 0) == nullptr);
  EXPECT_TRUE(quota.quotaError(other, 3, 3) != nullptr) << "those that are being written count";
}

// Catches: a machine that cannot renew because it has renewed often; a renewal that removes the
// record of another certificate.
TEST(IssuanceQuota, RenewalTakesThePlaceOfTheSame) {
  IssuanceQuota quota({.bytes = 100, .perHolder = 2, .fair = 1});
  quota.add(record("01", kNow + 1 * kj::HOURS, "10.0.0.9", 1));
  quota.add(record("02", kNow + 2 * kj::HOURS, "10.0.0.9", 2));
  auto renewed = record("03", kNow + 3 * kj::HOURS, "10.0.0.9", 2);
  EXPECT_TRUE(quota.quotaError(renewed, 0, 0) == nullptr);
  quota.add(renewed);
  EXPECT_EQ(taken(quota, kNow), "02");
  EXPECT_EQ(quota.size(), 2u);
}

// Catches: unbounded records; the record of a holder with few that is removed for a holder with
// many.
TEST(IssuanceQuota, OfTooManyTheHolderWithMostLosesThose) {
  IssuanceQuota quota({.bytes = 4, .perHolder = 4, .fair = 2});
  quota.add(record("01", kNow + 1 * kj::HOURS, "10.0.0.9", 1));
  quota.add(record("02", kNow + 2 * kj::HOURS, "10.0.0.66", 2));
  quota.add(record("03", kNow + 3 * kj::HOURS, "10.0.0.66", 3));
  quota.add(record("04", kNow + 4 * kj::HOURS, "10.0.0.66", 4));
  auto next = record("05", kNow + 5 * kj::HOURS, "10.0.0.7", 5);
  EXPECT_TRUE(quota.quotaError(next, 0, 0) == nullptr);
  quota.add(next);
  EXPECT_EQ(taken(quota, kNow), "02");
  // Now no holder has more than `fair`, and no record is superseded.
  EXPECT_TRUE(quota.quotaError(record("06", kNow, "10.0.0.8", 6), 0, 0) != nullptr);
  auto renewed = record("07", kNow + 7 * kj::HOURS, "10.0.0.9", 1);
  EXPECT_TRUE(quota.quotaError(renewed, 0, 0) == nullptr);
  quota.add(renewed);
  EXPECT_EQ(taken(quota, kNow), "01");
}

// Catches: a renewal with full memory that costs so much that a caller that renews without end
// stops all others; a table that keeps removed records.
TEST(IssuanceQuota, AFullBookIsFast) {
  constexpr unsigned kRecords = 7000;
  IssuanceQuota quota({.bytes = kRecords, .perHolder = kRecords, .fair = 1});
  auto numbered = [](unsigned i, unsigned subject) {
    auto next = record(kj::str(kj::hex(0x100000 + i)), kNow + i * kj::SECONDS);
    next.subject[1] = subject;
    next.subject[2] = subject >> 8;
    return next;
  };
  for (unsigned i = 0; i < kRecords; ++i) quota.add(numbered(i, i));
  auto began = clock();  // processor time
  for (unsigned i = 0; i < 200; ++i) {
    auto renewed = numbered(kRecords + i, kRecords - 1);
    EXPECT_TRUE(quota.quotaError(renewed, 0, 0) == nullptr);
    quota.add(renewed);
    EXPECT_TRUE(quota.takeDue(kNow) != nullptr);
    EXPECT_TRUE(quota.takeDue(kNow) == nullptr);
  }
  auto took = (clock() - began) / (CLOCKS_PER_SEC / 1000);
  if (!kSanitized) {  // a sanitizer makes it several times slower
    EXPECT_LT(took, 200 * 20) << "of which each is a moment without answers";
  }
}

// Searches all records by the rules of the header: returns the next to remove when there are too
// many.
kj::StringPtr nextOf(kj::ArrayPtr<const IssuanceQuota::Record> records,
                     const IssuanceQuota::Limits& limits) {
  auto bytesOf = [&](const Ip& holder) {
    size_t bytes = 0;
    for (auto& r : records) bytes += r.holder == holder ? r.bytes : 0;
    return bytes;
  };
  const IssuanceQuota::Record* most = &records[0];
  for (auto& r : records) {
    auto more = bytesOf(r.holder), now = bytesOf(most->holder);
    if (more > now || (more == now && r.holder > most->holder)) most = &r;
  }
  auto first = [&](auto&& suits) {
    const IssuanceQuota::Record* found = nullptr;
    for (auto& r : records) {
      if (suits(r) && (found == nullptr || r.end < found->end)) found = &r;
    }
    return found == nullptr ? ""_kj : found->serial.asPtr();
  };
  auto superseded = [&](const IssuanceQuota::Record& r) {
    for (auto& other : records) {
      if (other.holder == r.holder && other.subject == r.subject && other.end > r.end) return true;
    }
    return false;
  };
  auto ofMost = [&](const IssuanceQuota::Record& r) { return r.holder == most->holder; };
  auto next = first([&](auto& r) { return ofMost(r) && superseded(r); });
  if (next == "" && bytesOf(most->holder) > limits.fair) next = first(ofMost);
  return next == "" ? first(superseded) : next;
}

// Catches: indices that do not have the same records, or whose choice differs from a search's.
TEST(IssuanceQuota, TheIndicesFindWhatASearchFinds) {
  const IssuanceQuota::Limits limits{.bytes = 300, .perHolder = 1000, .fair = 60};
  IssuanceQuota quota(limits);
  kj::Vector<IssuanceQuota::Record> records;
  std::mt19937 random(1);
  auto below = [&](unsigned n) { return unsigned(random() % n); };
  unsigned removed = 0;
  for (unsigned i = 0; i < 3000; ++i) {
    auto next = record(kj::str(kj::hex(0x100000 + i)), kNow + below(1'000'000) * kj::SECONDS,
                       kj::str("10.0.0.", 1 + below(5)), below(4), 10 + below(60));
    records.add(record(next.serial, next.end, next.holder.toString(), next.subject[0], next.bytes));
    quota.add(next);
    size_t total = 0;
    for (auto& r : records) total += r.bytes;
    auto wanted = total > limits.bytes ? nextOf(records, limits) : ""_kj;
    auto due = quota.takeDue(kNow);
    auto serial = due.map([](auto& r) { return kj::str(r.serial); }).orDefault(kj::String());
    ASSERT_EQ(serial, wanted) << "after " << i;
    if (due == nullptr) continue;
    ++removed;
    kj::Vector<IssuanceQuota::Record> rest;
    for (auto& r : records) {
      if (r.serial != serial) rest.add(kj::mv(r));
    }
    records = kj::mv(rest);
  }
  EXPECT_GT(removed, 2900u);
  EXPECT_EQ(quota.size(), records.size());
}

TEST(IssuanceQuota, InvalidSerialNumbersAreRefused) {
  IssuanceQuota quota;
  for (auto text : {"", "xy", "0", "000102030405060708090a0b0c0d0e0f10"}) {
    EXPECT_FALSE(quota.add(record(text, kNow))) << text;
  }
  EXPECT_TRUE(quota.add(record("000102030405060708090a0b0c0d0e0f", kNow)));
  EXPECT_FALSE(quota.add(record("000102030405060708090a0b0c0d0e0f", kNow)));
}

}  // namespace
}  // namespace talos::trustd
