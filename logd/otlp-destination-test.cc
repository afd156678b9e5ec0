// A destination that sends OTLP.
#include <deque>
#include <string>
#include <vector>

#include "logd/test-destination.h"

namespace talos::logd {
namespace {

// A receiver of OTLP that gives the test's answers, and then accepts everything.
struct OtlpModel final : OtlpReceiver {
  struct Request {
    std::string texts = {};  // joined
    size_t bytes;
  };
  std::vector<Request> requests;
  std::deque<OtlpAnswer> answers;
  bool refuses = false;              // No connection is made.
  unsigned breaks = 0;               // This many requests arrive and are not answered.
  kj::Maybe<InlineDisk&> losesDisk;  // The disk fails while the next request is answered.

  kj::Promise<OtlpAnswer> post(kj::ArrayPtr<const char> body) override {
    KJ_IF_MAYBE (disk, losesDisk) disk->failing = 1;
    losesDisk = nullptr;
    if (refuses) return error(ErrorKind::kUnavailable, "Connection refused");
    Request request{.bytes = body.size()};
    std::string text(body.begin(), body.size());
    constexpr kj::StringPtr kBody = "\"body\":{\"stringValue\":\""_kj;
    for (size_t at = 0; (at = text.find(kBody.cStr(), at)) != std::string::npos;) {
      at += kBody.size();
      request.texts += text.substr(at, text.find("\"},\"attributes", at) - at) + ",";
    }
    requests.push_back(request);
    if (breaks > 0) {
      --breaks;
      return error(ErrorKind::kUnavailable, "no answer");
    }
    if (answers.empty()) return OtlpAnswer{.outcome = OtlpAnswer::Outcome::kAccepted};
    auto answer = kj::mv(answers.front());
    answers.pop_front();
    return kj::mv(answer);
  }
  uint64_t sentRequests() const override { return requests.size(); }
};

struct OtlpDestinationTest : public DestinationTest {
  ~OtlpDestinationTest() noexcept override {}

  OtlpModel otlp;
  void startOtlp(uint64_t buffer = 1u << 20) {
    start("http://otel.example.org:4318", buffer,
          kj::Own<OtlpReceiver>(&otlp, kj::NullDisposer::instance));
  }
  void answer(OtlpAnswer answer) { otlp.answers.push_back(kj::mv(answer)); }
  // Returns the texts of all requests, with "|" between two.
  std::string sent() {
    std::string out;
    for (auto& request : otlp.requests) out += (out.empty() ? "" : "|") + request.texts;
    return out;
  }
  static OtlpAnswer answerOf(OtlpAnswer::Outcome outcome, kj::StringPtr message) {
    return {.outcome = outcome, .message = kj::str(message)};
  }
};

using Outcome = OtlpAnswer::Outcome;

// Catches: lines that count as delivered before the answer; a pause that is not kept; a pause that
// loses its lines; an error that stays after a success.
TEST_F(OtlpDestinationTest, WaitsAsTheReceiverSaysAndSendsAgain) {
  auto later = answerOf(Outcome::kLater, "503 Service Unavailable");
  later.pause = 20 * kj::SECONDS;
  answer(kj::mv(later));
  startOtlp();
  log("1\n2\n");
  EXPECT_EQ("1,2,", sent());
  EXPECT_EQ(0u, destination->status().sentLines);
  EXPECT_TRUE(destination->status().connected);
  EXPECT_EQ("the receiver answered 503 Service Unavailable", destination->status().lastError);
  log("3\n");
  pass(19 * kj::SECONDS);
  EXPECT_EQ("1,2,", sent());
  pass(2 * kj::SECONDS);
  EXPECT_EQ("1,2,|1,2,3,", sent());
  EXPECT_EQ(3u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().waitingBytes);
  EXPECT_EQ("", destination->status().lastError);
  // The pauses grow if the receiver does not specify one.
  for (unsigned i = 0; i < 4; ++i) answer(answerOf(Outcome::kLater, "429"));
  log("4\n");
  otlp.requests.clear();
  pass(6 * kj::SECONDS);
  EXPECT_EQ(2u, otlp.requests.size());  // after 1 s and 3 s, and the next request 4 s later
  pass(10 * kj::SECONDS);
  EXPECT_EQ("4,|4,|4,|4,", sent());
}

// Catches: the next request before the disk has the answer to the last one: if the disk fails, the
// same lines would be sent again and again without a pause.
TEST_F(OtlpDestinationTest, WaitsUntilTheAnswerIsOnTheDisk) {
  startOtlp();
  otlp.losesDisk = disk;
  log("1\n");
  EXPECT_EQ("1,", sent());
  EXPECT_EQ("the disk is gone", destination->status().lastError);
  EXPECT_EQ(0u, destination->status().sentLines);
  pass(2 * kj::SECONDS);
  EXPECT_EQ("1,|1,", sent());
  EXPECT_EQ(1u, destination->status().sentLines);
  EXPECT_EQ("", destination->status().lastError);
}

// Catches: a refused request that is sent for ever, or is missing in all counts; a partial success
// that is sent again, or counts as a full success.
TEST_F(OtlpDestinationTest, CountsWhatTheReceiverWillNeverTake) {
  answer(answerOf(Outcome::kRefused, "400 Bad Request: no"));
  auto partial = answerOf(Outcome::kAccepted, "200 OK: too old");
  partial.rejected = 1;
  startOtlp();
  log("1\n2\n");
  EXPECT_EQ("1,2,", sent());
  EXPECT_EQ(2u, destination->status().refusedLines);
  EXPECT_EQ(0u, destination->status().sentLines);
  EXPECT_EQ("the receiver refused lines: 400 Bad Request: no", destination->status().lastError);
  answer(kj::mv(partial));
  log("3\n4\n5\n");
  EXPECT_EQ("1,2,|3,4,5,", sent());
  EXPECT_EQ(3u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
  EXPECT_EQ("the receiver refused lines: 200 OK: too old", destination->status().lastError);
  auto liar = answerOf(Outcome::kAccepted, "200 OK");
  liar.rejected = UINT64_MAX;
  answer(kj::mv(liar));
  log("6\n");
  EXPECT_EQ(4u, destination->status().refusedLines);
  EXPECT_EQ(2u, destination->status().sentLines);
  log("7\n");
  EXPECT_EQ("", destination->status().lastError);
  pass(60 * kj::SECONDS);
  EXPECT_EQ("1,2,|3,4,5,|6,|7,", sent());
  startOtlp();  // The counts are on the disk.
  log("8\n");
  EXPECT_EQ(4u, destination->status().refusedLines);
  EXPECT_EQ(4u, destination->status().sentLines);
}

// Catches: an unbounded request; a request too large for the receiver, whose lines are lost
// although smaller requests would be accepted; a request that is halved for ever.
TEST_F(OtlpDestinationTest, SendsSmallerRequestsWhereTheyAreTooLarge) {
  otlp.refuses = true;
  startOtlp(16u << 20);
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 60; ++i) log(lines);
  EXPECT_FALSE(destination->status().connected);
  EXPECT_EQ("Connection refused", destination->status().lastError);
  for (unsigned i = 0; i < 3; ++i) answer(answerOf(Outcome::kTooLarge, "413"));
  otlp.refuses = false;
  pass(60 * kj::SECONDS);
  ASSERT_GT(otlp.requests.size(), 4u);
  for (unsigned i = 1; i < 4; ++i) {
    EXPECT_LT(otlp.requests[i].texts.size(), otlp.requests[i - 1].texts.size() * 2 / 3);
  }
  for (auto& request : otlp.requests) EXPECT_LE(request.texts.size(), kMostOfRequest);
  EXPECT_GT(otlp.requests[0].texts.size(), kMostOfRequest / 2);
  EXPECT_EQ(60'000u, destination->status().sentLines);
  EXPECT_EQ(0u, destination->status().refusedLines);
  answer(answerOf(Outcome::kTooLarge, "413"));
  log("a\n");  // a single line cannot be split
  EXPECT_EQ(1u, destination->status().refusedLines);
}

// Catches: lines that come again and are not counted; lines that count as sent again although no
// connection was made, or although they were not in the request before.
TEST_F(OtlpDestinationTest, CountsLinesThatAreSentAgain) {
  otlp.refuses = true;
  startOtlp();
  log("1\n2\n");
  pass(10 * kj::SECONDS);
  otlp.refuses = false;
  otlp.breaks = 1;
  answer(answerOf(Outcome::kLater, "503"));
  for (unsigned i = 0; i < 60 && otlp.requests.empty(); ++i) pass(1 * kj::SECONDS);
  EXPECT_EQ("1,2,", sent());
  EXPECT_EQ(0u, destination->status().repeatedLines);
  log("3\n");
  pass(60 * kj::SECONDS);
  EXPECT_EQ("1,2,|1,2,3,|1,2,3,", sent());
  EXPECT_EQ(2u + 3u, destination->status().repeatedLines);
  EXPECT_EQ(3u, destination->status().sentLines);
  log("4\n");
  EXPECT_EQ(5u, destination->status().repeatedLines);
  startOtlp();  // The count is on the disk.
  log("5\n");
  EXPECT_EQ(5u, destination->status().repeatedLines);
}

// Catches: lines that are lost although the receiver was only away; a loss that is not reported in
// its place.
TEST_F(OtlpDestinationTest, SaysWhatWasDroppedToReceiversOfOtlp) {
  otlp.refuses = true;
  startOtlp();
  auto lines = kj::str(kj::strArray(kj::repeat("0123456789abcdef"_kj, 1000), "\n"), "\n");
  for (unsigned i = 0; i < 100; ++i) log(lines);
  auto dropped = destination->status().droppedLines;
  EXPECT_GT(dropped, 0u);
  // The report in a refused request has not arrived.
  answer(answerOf(Outcome::kRefused, "400"));
  otlp.refuses = false;
  pass(60 * kj::SECONDS);
  auto notice = std::to_string(dropped) + " lines were dropped: the buffer for this receiver";
  ASSERT_GT(otlp.requests.size(), 2u);
  for (size_t i = 0; i < otlp.requests.size(); ++i) {
    auto at = otlp.requests[i].texts.find(notice);
    EXPECT_EQ(i < 2, at != std::string::npos) << i;
    if (i < 2) EXPECT_LT(at, 100u);
  }
  auto status = destination->status();
  EXPECT_EQ(100'000u, dropped + status.sentLines + status.refusedLines);
  EXPECT_GT(status.refusedLines, 0u);
}

}  // namespace
}  // namespace talos::logd
