#include "talosctl/cli/past-time.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/date.h"
#include "common/base/error.h"

namespace talos::talosctl {
namespace {

// 2026-11-20 14:07:35 in the zone of the test.
constexpr kj::StringPtr kNow = "2026-11-20T12:07:35Z"_kj;

struct PastTimes : testing::Test {
  ~PastTimes() noexcept override {}
  kj::Date now;
  PastTimes() : now(KJ_ASSERT_NONNULL(parseDate(kNow))) { zone("TEST-2"); }  // two hours east
  static void zone(const char* name) {
    setenv("TZ", name, 1);
    tzset();
  }
  void TearDown() override {
    unsetenv("TZ");
    tzset();
  }
  std::string text(kj::StringPtr typed) {
    KJ_IF_MAYBE (time, parsePastTime(typed, now)) {
      KJ_SWITCH_ONEOF(*time) {
        KJ_CASE_ONEOF(age, kj::Duration) {
          return kj::str(age / kj::SECONDS, "s ago").cStr();
        }
        KJ_CASE_ONEOF(date, kj::Date) {
          return dateTextMs(date).cStr();
        }
      }
    }
    return "none";
  }
};

// Catches: a local time that is taken for UTC, a time of day on another day, days that the duration
// parser does not know.
TEST_F(PastTimes, FormsOfKubectlAndJournalctl) {
  const std::pair<kj::StringPtr, std::string> rows[] = {
      {"5m", "300s ago"},
      {"1h30m", "5400s ago"},
      {"-90s", "90s ago"},
      {"5", "5s ago"},  // as in every duration
      {"2d", "172800s ago"},
      {"1d12h", "129600s ago"},
      {"0s", "0s ago"},
      {"2026-11-20T12:07:35Z", "2026-11-20T12:07:35.000Z"},
      {"2026-11-20T12:07:35.25+01:00", "2026-11-20T11:07:35.250Z"},
      {"2026-11-20 12:07:35Z", "2026-11-20T12:07:35.000Z"},
      {"2026-11-20 12:07:35", "2026-11-20T10:07:35.000Z"},
      {"2026-11-20T12:07", "2026-11-20T10:07:00.000Z"},
      {"2026-11-20 00:30", "2026-11-19T22:30:00.000Z"},
      {"2026-11-20", "2026-11-19T22:00:00.000Z"},
      {"14:05", "2026-11-20T12:05:00.000Z"},
      {"14:05:30", "2026-11-20T12:05:30.000Z"},
      {"today", "2026-11-19T22:00:00.000Z"},
      {"yesterday", "2026-11-18T22:00:00.000Z"},
      {"@1795176455", "2026-11-20T12:07:35.000Z"},
  };
  for (auto& [typed, is] : rows) EXPECT_EQ(text(typed), is) << typed.cStr();
  now = KJ_ASSERT_NONNULL(parseDate("2026-11-20T23:30:00Z"));  // the 21st there
  EXPECT_EQ(text("01:15"), "2026-11-20T23:15:00.000Z");
  EXPECT_EQ(text("today"), "2026-11-20T22:00:00.000Z");
  now = KJ_ASSERT_NONNULL(parseDate("2026-12-01T10:00:00Z"));
  EXPECT_EQ(text("yesterday"), "2026-11-29T22:00:00.000Z");
}

// Catches: a time of day that is an hour off on the day when clocks change.
TEST_F(PastTimes, SummerTimeIsThatOfTheDay) {
  zone("CET-1CEST,M3.5.0,M10.5.0/3");
  now = KJ_ASSERT_NONNULL(parseDate("2026-10-26T10:00:00Z"));  // the day after
  EXPECT_EQ(text("yesterday"), "2026-10-24T22:00:00.000Z");
  EXPECT_EQ(text("today"), "2026-10-25T23:00:00.000Z");
  EXPECT_EQ(text("2026-10-24 12:00"), "2026-10-24T10:00:00.000Z");
}

// Catches: a typo that selects another time, or the whole log.
TEST_F(PastTimes, OtherTextsAreNone) {
  for (auto typed : {""_kj, "5x"_kj, "d"_kj, "--5m"_kj, "999999d"_kj, "yester"_kj, "25:00"_kj,
                     "14:5"_kj, "14:05:61"_kj, "2026-11"_kj, "2026-02-30"_kj, "2026-13-01"_kj,
                     "2026-11-20T"_kj, "2026-11-20T12:07:35+2"_kj, "@"_kj, "@12x"_kj,
                     "@99999999999"_kj, "2026-11-20 14:05 "_kj, "20-11-2026"_kj}) {
    EXPECT_EQ(text(typed), "none") << typed.cStr();
  }
}

std::string refused(kj::StringPtr typed, kj::Date now) {
  std::string message = "accepted";
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pastTimeOf("since", typed, now); })) {
    message = messageOf(*e).cStr();
  }
  return message;
}

// Catches: an error that does not say which forms are valid, and a time that no log line can have.
TEST_F(PastTimes, AMistakeSaysWhatWouldBeRight) {
  EXPECT_TRUE(pastTimeOf("since", "", now) == nullptr);
  auto message = refused("5x", now);
  EXPECT_NE(message.find("--since \"5x\" is not a time; use how long ago (45s"), message.npos)
      << message;
  message = refused("23:00", now);
  EXPECT_NE(message.find("--since \"23:00\" is 2026-11-20T21:00:00Z, which is still to come; it is "
                         "2026-11-20T12:07:35Z"),
            message.npos)
      << message;
  EXPECT_EQ(refused("14:07", now), "accepted");
}

}  // namespace
}  // namespace talos::talosctl
