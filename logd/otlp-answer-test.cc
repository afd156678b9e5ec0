#include "logd/otlp-answer.h"

#include <gtest/gtest.h>

#include <string>

namespace talos::logd {
namespace {

using Outcome = OtlpAnswer::Outcome;

OtlpAnswer answerOf(unsigned status, kj::StringPtr body = "",
                    kj::Maybe<kj::StringPtr> retryAfter = nullptr) {
  return readOtlpAnswer(status, "Text", retryAfter, body, [](kj::String text) { return text; });
}

// Catches: a permanent status that is retried for ever, and a temporary one that loses lines.
TEST(OtlpAnswerTest, KnowsWhatToTryAgain) {
  for (auto status : {200u, 202u, 204u}) EXPECT_EQ(Outcome::kAccepted, answerOf(status).outcome);
  for (auto status : {301u, 307u, 308u, 401u, 403u, 429u, 502u, 503u, 504u}) {
    EXPECT_EQ(Outcome::kLater, answerOf(status).outcome) << status;
  }
  for (auto status : {101u, 400u, 404u, 405u, 415u, 422u, 500u, 501u, 599u}) {
    EXPECT_EQ(Outcome::kRefused, answerOf(status).outcome) << status;
  }
  EXPECT_EQ(Outcome::kTooLarge, answerOf(413).outcome);
}

// Catches: the text form of an int64 that is read as 0; a negative number of rejected records that
// is subtracted.
TEST(OtlpAnswerTest, CountsRejectedRecords) {
  auto rejected = [](kj::StringPtr body) { return answerOf(200, body).rejected; };
  EXPECT_EQ(7u, rejected(R"({"partialSuccess": {"rejectedLogRecords": "7"}})"));
  EXPECT_EQ(7u, rejected(R"({"partialSuccess": {"rejectedLogRecords": 7}})"));
  for (auto none : {"", "{}", "<html>", R"({"partialSuccess": {}})", R"({"partialSuccess": null})",
                    R"({"partialSuccess": {"rejectedLogRecords": "-7"}})",
                    R"({"partialSuccess": {"rejectedLogRecords": -7}})",
                    R"({"partialSuccess": {"rejectedLogRecords": "many"}})",
                    R"({"partialSuccess": {"rejectedLogRecords": [7]}})"}) {
    EXPECT_EQ(0u, rejected(none)) << none;
  }
  EXPECT_EQ(0u, answerOf(400, R"({"partialSuccess": {"rejectedLogRecords": "7"}})").rejected);
}

// Catches: a receiver's message that controls the reader's terminal, or fills the log.
TEST(OtlpAnswerTest, SaysWhatTheReceiverSays) {
  EXPECT_EQ("503 Text", answerOf(503).message);
  EXPECT_EQ("400 Text: no \\x1b[31m record",
            answerOf(400, R"({"message": "no \u001b[31m record"})").message);
  EXPECT_EQ("200 Text: too old",
            answerOf(200, R"({"partialSuccess": {"errorMessage": "too old"}})").message);
  EXPECT_LT(
      answerOf(400, kj::str("{\"message\": \"", kj::strArray(kj::repeat("a"_kj, 9999), ""), "\"}"))
          .message.size(),
      250u);
  auto hide = [](kj::String text) { return kj::str("*", text.slice(1)); };
  EXPECT_EQ("418", readOtlpAnswer(418, "", nullptr, nullptr, [](kj::String text) {
                     return text;
                   }).message);
  EXPECT_EQ("400 *ext: *bc",
            readOtlpAnswer(400, "Text", nullptr, R"({"message": "abc"})"_kj, hide).message);
}

TEST(OtlpAnswerTest, WaitsAsTheReceiverSays) {
  EXPECT_EQ(7 * kj::SECONDS, KJ_ASSERT_NONNULL(answerOf(429, "", "7"_kj).pause));
  EXPECT_EQ(60 * kj::SECONDS, KJ_ASSERT_NONNULL(answerOf(503, "", "86400"_kj).pause));
  EXPECT_TRUE(answerOf(503, "", "Fri, 20 Nov 2026 12:07:35 GMT"_kj).pause == nullptr);
  EXPECT_TRUE(answerOf(503).pause == nullptr);
  EXPECT_TRUE(answerOf(400, "", "7"_kj).pause == nullptr);
}

}  // namespace
}  // namespace talos::logd
