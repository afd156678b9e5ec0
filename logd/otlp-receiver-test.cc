#include "logd/otlp-receiver.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>

#include "common/base/error.h"
#include "common/tls/pki.h"
#include "common/wire/rpc-server.h"
#include "logd/otlp-request.h"
#include "logd/test-otlp-collector.h"

namespace talos::logd {
namespace {

using Outcome = OtlpAnswer::Outcome;

constexpr kj::StringPtr kRefusal = "HTTP/1.1 413 Too large\r\nContent-Length: 0\r\n\r\n"_kj;

struct OtlpReceiverTest : public testing::Test {
  ~OtlpReceiverTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  DiskThread disk;
  ReceiverDependencies deps{*io.lowLevelProvider, io.unixEventPort, io.provider->getTimer(), disk};
  kj::Own<OtlpReceiver> receiver;
  kj::Array<char> body;

  void connect(OtlpCollector& collector, kj::StringPtr path = "", kj::StringPtr scheme = "http",
               kj::StringPtr authority = "") {
    connectTo(kj::str(scheme, "://127.0.0.1:", collector.server.port, path),
              {.authorities = kj::str(authority)});
  }
  void connectTo(kj::StringPtr endpoint, OtlpOptions options) {
    receiver = otlpReceiver(deps, ReceiverAddress::parse(endpoint), kj::mv(options));
  }
  OtlpAnswer post(kj::StringPtr line) {
    OtlpRequest request(nullptr, "node-1");
    request.add({.id = "apid", .text = line});
    body = request.finish();
    return receiver->post(body).wait(io.waitScope);
  }
  kj::String failure(kj::StringPtr line) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { post(line); })) return messageOf(*e);
    return kj::str();
  }
};

// Catches: a request that a receiver refuses; a new connection for each request; a kept connection
// that the receiver has closed, whose lines are lost or reported as an error.
TEST_F(OtlpReceiverTest, PostsOnAConnectionThatIsKept) {
  OtlpCollector collector(io);
  connect(collector);
  EXPECT_EQ(Outcome::kAccepted, post("1").outcome);
  EXPECT_EQ(Outcome::kAccepted, post("2").outcome);
  EXPECT_EQ(1u, collector.server.connections);
  collector.server.stop();
  collector.server.start();
  EXPECT_EQ(Outcome::kAccepted, post("3").outcome);
  EXPECT_EQ(2u, collector.server.connections);
  EXPECT_EQ((std::vector<std::string>{"apid: 1", "apid: 2", "apid: 3"}), collector.taken);
  EXPECT_EQ(std::vector<std::string>(3, "/v1/logs"), collector.paths);
  EXPECT_EQ(std::vector<std::string>(3, "application/json"), collector.types);
  EXPECT_EQ(std::vector<std::string>(), collector.problems);
  connect(collector, "/otlp/v1/logs");
  post("4");
  EXPECT_EQ("/otlp/v1/logs", collector.paths.back());
}

// Catches: an answer whose headers or body are not read; an early answer that is lost with the
// connection.
TEST_F(OtlpReceiverTest, ReadsTheAnswer) {
  OtlpCollector collector(io);
  connect(collector);
  collector.replies = {{.status = 503, .retryAfter = "7"},
                       {.body = R"({"partialSuccess": {"rejectedLogRecords": "1"}})"},
                       {.status = 413, .body = R"({"message": "too large"})", .unread = true},
                       {.status = 200, .body = std::string(200'000, ' ')}};
  auto later = post("1");
  EXPECT_EQ(Outcome::kLater, later.outcome);
  EXPECT_EQ(7 * kj::SECONDS, KJ_ASSERT_NONNULL(later.pause));
  EXPECT_EQ(1u, post("2").rejected);
  auto refused = post(kj::strArray(kj::repeat("0123456789abcdef"_kj, 100'000), ""));
  EXPECT_EQ(Outcome::kTooLarge, refused.outcome);
  EXPECT_EQ("413 Text: too large", refused.message);
  EXPECT_EQ(Outcome::kAccepted, post("3").outcome);
  EXPECT_EQ(Outcome::kAccepted, post("4").outcome);
}

// Catches: a connection that breaks before the answer and counts as delivered; a second attempt
// after a failure of a new connection.
TEST_F(OtlpReceiverTest, SaysThatThereWasNoAnswer) {
  OtlpCollector collector(io);
  connect(collector);
  collector.replies = {{.closes = true}};
  EXPECT_NE("", failure("1"));
  EXPECT_EQ(1u, collector.bodies.size());
  EXPECT_EQ(Outcome::kAccepted, post("1").outcome);
  collector.server.stop();
  EXPECT_NE(nullptr, strstr(failure("2").cStr(), "Connection refused")) << failure("2").cStr();
  collector.server.start();
  EXPECT_EQ(Outcome::kAccepted, post("2").outcome);
  EXPECT_EQ((std::vector<std::string>{"apid: 1", "apid: 2"}), collector.taken);
}

// Catches: a request without an answer that does not count as sent; one that does although no
// connection was made.
TEST_F(OtlpReceiverTest, CountsTheRequestsThatItSends) {
  OtlpCollector collector(io);
  connect(collector);
  collector.replies = {{.closes = true}};
  EXPECT_NE("", failure("1"));
  EXPECT_EQ(1u, receiver->sentRequests());
  EXPECT_EQ(Outcome::kAccepted, post("1").outcome);
  EXPECT_GT(receiver->sentRequests(), 1u);
  collector.server.stop();
  connect(collector);
  EXPECT_NE("", failure("2"));
  EXPECT_EQ(0u, receiver->sentRequests());
}

// Catches: a receiver that answers early, keeps the connection and stops reading, whose answer is
// not read before its deadline.
TEST_F(OtlpReceiverTest, ReadsTheAnswerBeforeTheRequestIsWritten) {
  auto listening = listenTcp("127.0.0.1", 0);
  auto port = portOf(listening);
  auto accepting = io.lowLevelProvider->wrapListenSocketFd(listening.get(), 0);
  kj::Own<kj::AsyncIoStream> stream;
  auto serving = accepting->accept()
                     .then([&](kj::Own<kj::AsyncIoStream> accepted) {
                       stream = kj::mv(accepted);
                       return stream->write(kRefusal.begin(), kRefusal.size());
                     })
                     .eagerlyEvaluate(nullptr);
  connectTo(kj::str("http://127.0.0.1:", port), {});
  // More than both kernels buffer.
  auto large = kj::heapArray<char>(64u << 20);
  memset(large.begin(), ' ', large.size());
  auto answer = receiver->post(large);
  auto early = io.provider->getTimer().timeoutAfter(10 * kj::SECONDS, kj::mv(answer));
  EXPECT_EQ(Outcome::kTooLarge, early.wait(io.waitScope).outcome);
}

// Catches: a request without the headers of its destination; a request that is labelled gzip and is
// not.
TEST_F(OtlpReceiverTest, SendsHeadersAndCompresses) {
  OtlpCollector collector(io);
  auto endpoint = kj::str("http://127.0.0.1:", collector.server.port);
  auto headers = [](kj::StringPtr value) {
    return kj::arr(OtlpHeader{kj::str("Authorization"), pki::Pem(kj::str(value))});
  };
  connectTo(endpoint, {.headers = headers("Bearer 0123456789")});
  EXPECT_EQ(Outcome::kAccepted, post("1").outcome);
  connectTo(endpoint,
            {.headers = headers("Basic abc"), .compression = config::LogCompression::GZIP});
  auto longest = kj::strArray(kj::repeat("0123456789abcdef"_kj, 10'000), "");
  EXPECT_EQ(Outcome::kAccepted, post(longest).outcome);
  EXPECT_EQ(Outcome::kAccepted, post("2").outcome);
  EXPECT_EQ((std::vector<std::string>{"Bearer 0123456789", "Basic abc", "Basic abc"}),
            collector.authorizations);
  EXPECT_EQ((std::vector<std::string>{"", "gzip", "gzip"}), collector.encodings);
  EXPECT_LT(collector.received[1], 10'000u);
  ASSERT_EQ(3u, collector.taken.size());
  EXPECT_EQ("apid: " + std::string(longest.cStr()), collector.taken[1]);
  EXPECT_EQ(std::vector<std::string>(), collector.problems);
}

// Catches: a token in the log of a node, because the receiver repeats it in its answer; a part of
// it, because it stands where a long answer is cut, or has a character that is escaped.
TEST_F(OtlpReceiverTest, HidesSecretsThatComeBack) {
  OtlpCollector collector(io);
  collector.replies = {
      {.status = 401, .body = R"({"message": "Bearer 0123456789 is not known, nor 0123456789."})"},
      {.status = 400, .body = R"({"message": "0123456789"})"},
      {.status = 400,
       .body = ("{\"message\": \"" + std::string(195, 'a') + "0123456789\"}").c_str()}};
  connectTo(kj::str("http://127.0.0.1:", collector.server.port),
            {.headers = kj::arr(
                 OtlpHeader{kj::str("Authorization"), pki::Pem(kj::str("Bearer 0123456789"))})});
  auto denied = post("1");
  EXPECT_EQ(Outcome::kLater, denied.outcome);
  EXPECT_EQ("401 Text: *** is not known, nor ***.", denied.message);
  EXPECT_EQ("400 Text: ***", post("1").message);
  auto cut = post("1").message;
  EXPECT_EQ(nullptr, strstr(cut.cStr(), "01")) << cut.cStr();
}

// Catches: a receiver that is not verified.
TEST_F(OtlpReceiverTest, ChecksTheReceiversCertificate) {
  auto authority =
      pki::makeAuthority({.organization = "receivers", .keyType = pki::KeyType::kEcdsaP256});
  pki::LeafOptions options{.commonName = "receiver"};
  options.addresses = kj::arr(kj::str("127.0.0.1"));
  auto leaf = pki::issue(authority.certificate, authority.key, kj::mv(options));
  OtlpCollector collector(io, {.certificate = leaf.certificate, .key = kj::StringPtr(leaf.key)});
  connect(collector, "", "https", authority.certificate);
  EXPECT_EQ(Outcome::kAccepted, post("1").outcome);
  auto other = pki::makeAuthority({.organization = "others"});
  connect(collector, "", "https", other.certificate);
  EXPECT_NE(nullptr, strstr(failure("2").cStr(), "certificate")) << failure("2").cStr();
  EXPECT_EQ(std::vector<std::string>{"apid: 1"}, collector.taken);
}

}  // namespace
}  // namespace talos::logd
