#include "machined/tasks/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/compat/gzip.h>
#include <kj/compat/http.h>
#include <kj/debug.h>

#include <string>
#include <vector>

#include "common/error.h"

namespace talos::machined {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

KernelArguments parse(kj::StringPtr text) {
  return KernelArguments(text.asArray());
}

ConfigSource source(kj::StringPtr url, kj::StringPtr uuid = "u-1") {
  return KJ_ASSERT_NONNULL(configSource(parse(kj::str("talos.config=", url)), uuid));
}

std::string refusal(kj::StringPtr url) {
  try {
    configSource(parse(kj::str("talos.config=", url)), "");
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e));
    return messageOf(e).cStr();
  }
  return "accepted";
}

// Catches: `none` (as installs without a URL write it) taken for a URL, which loops instead of
// maintenance.
TEST(ConfigSource, NoneIsNoSource) {
  EXPECT_TRUE(configSource(parse("a=b"), "") == nullptr);
  EXPECT_TRUE(configSource(parse("talos.config="), "") == nullptr);
  EXPECT_TRUE(configSource(parse("talos.config=none"), "") == nullptr);
}

// Catches: a port, an IPv6 address or the query lost on the way; the query in a log.
TEST(ConfigSource, Parts) {
  auto s = source("http://10.5.0.1:8080/a/b?x=1&uuid=");
  EXPECT_EQ("10.5.0.1", s.host);
  EXPECT_EQ(8080, s.port);
  EXPECT_EQ("10.5.0.1:8080", s.authority);
  EXPECT_EQ("/a/b?x=1&uuid=u-1", s.target);
  EXPECT_EQ("http://10.5.0.1:8080/a/b", s.shown);
  auto six = source("http://[fd00::1]/c");
  EXPECT_EQ("fd00::1", six.host);
  EXPECT_EQ(80, six.port);
  EXPECT_EQ("/c?uuid=given", source("http://10.5.0.1/c?uuid=given").target);
}

// Catches: a bad parameter that is ignored, or refused without saying what would be right.
TEST(ConfigSource, Refusals) {
  EXPECT_THAT(refusal("http://example.org/c"), HasSubstr("\"example.org\" is not an IP address"));
  EXPECT_THAT(refusal("https://10.5.0.1/c"), HasSubstr("the scheme \"https\" is not supported"));
  EXPECT_THAT(refusal("metal-iso"), HasSubstr("needs disks"));
  EXPECT_THAT(refusal("nonsense"), HasSubstr("not a URL; right is http://"));
  EXPECT_THAT(refusal("http://10.5.0.1:0/c"), HasSubstr("port"));
  EXPECT_THAT(refusal("http://10.5.0.1:70000/c"), HasSubstr("port"));
  EXPECT_THAT(refusal("http://[::1/c"), testing::Not("accepted"));
}

kj::Array<char> zip(kj::StringPtr text) {
  kj::VectorOutputStream out;
  {
    kj::GzipOutputStream zipper(out);
    zipper.write(text.begin(), text.size());
  }
  return kj::heapArray(out.getArray().asChars());
}

// Catches: a packed config handed to the parser, a cut one that crashes, one that fills the memory.
TEST(Unpack, Gzip) {
  EXPECT_EQ("machine: {}"_kj, kj::str(unpack(zip("machine: {}"))));
  EXPECT_EQ("plain"_kj, kj::str(unpack(kj::heapArray("plain"_kj.asArray()))));
  auto packed = zip("machine: {}");
  EXPECT_ANY_THROW(unpack(kj::heapArray(packed.slice(0, packed.size() / 2))));
  auto bomb = zip(kj::str(kj::repeat('a', kMostConfigBytes + 1)));
  EXPECT_LT(bomb.size(), 100000u);
  EXPECT_ANY_THROW(unpack(kj::mv(bomb)));
}

// A server in this process, on a loopback port of the kernel's choice; time is the test's.
class FetchTest : public testing::Test, public kj::HttpService {
 public:
  kj::Promise<void> request(kj::HttpMethod, kj::StringPtr url, const kj::HttpHeaders&,
                            kj::AsyncInputStream&, Response& response) override {
    asked.push_back(url.cStr());
    unsigned status = asked.size() <= failures ? 503 : 200;
    kj::StringPtr text = status == 200 ? kj::StringPtr(body) : "no"_kj;
    auto stream =
        response.send(status, status == 200 ? "OK" : "Busy", kj::HttpHeaders(table), text.size());
    auto done = stream->write(text.begin(), text.size());
    return done.attach(kj::mv(stream));
  }

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::HttpHeaderTable table;
  kj::HttpServer server{io.provider->getTimer(), table, *this};
  kj::Own<kj::ConnectionReceiver> listener =
      io.provider->getNetwork().parseAddress("127.0.0.1", 0).wait(io.waitScope)->listen();
  kj::Promise<void> serving = server.listenHttp(*listener).eagerlyEvaluate(nullptr);
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  std::vector<std::string> asked, said;
  kj::String body = kj::str("config");
  unsigned failures = 0;
  kj::Own<kj::PromiseFulfiller<void>> pausing;
  FetchWorld world{io.provider->getNetwork(), timer,
                   [this]() {
                     if (pausing.get() != nullptr) pausing->fulfill();  // a pause begins
                     return 0.5;
                   },
                   [this](kj::StringPtr line) { said.push_back(line.cStr()); }};

  ~FetchTest() noexcept override {}

  ConfigSource here() {
    return source(kj::str("http://127.0.0.1:", listener->getPort(), "/c?uuid="));
  }
  // Real I/O runs until the fetch is done or pauses; then virtual time passes up to the end of the
  // pause.
  kj::Array<char> fetch() {
    kj::Array<char> result;
    bool done = false;
    auto all = fetchConfig(world, here())
                   .then([&](kj::Array<char> bytes) {
                     result = kj::mv(bytes);
                     done = true;
                   })
                   .fork();
    while (!done) {
      auto paf = kj::newPromiseAndFulfiller<void>();
      pausing = kj::mv(paf.fulfiller);
      all.addBranch().exclusiveJoin(kj::mv(paf.promise)).wait(io.waitScope);
      KJ_IF_MAYBE (next, timer.nextEvent()) {
        if (!done) timer.advanceTo(*next);
      }
    }
    return result;
  }
};

// Catches: a config that arrives changed, a uuid that is not filled in.
TEST_F(FetchTest, Fetches) {
  EXPECT_EQ("config"_kj, kj::str(fetch()));
  EXPECT_THAT(asked, ElementsAre("/c?uuid=u-1"));
}

// Catches: giving up at the first refusal, telling the same error again and again.
TEST_F(FetchTest, RetriesAndTellsOnce) {
  failures = 3;
  EXPECT_EQ("config"_kj, kj::str(fetch()));
  EXPECT_EQ(4u, asked.size());
  ASSERT_EQ(1u, said.size());
  EXPECT_THAT(said[0], HasSubstr("retrying error: http://127.0.0.1:"));
  EXPECT_THAT(said[0], HasSubstr("503 Busy"));
}

// Catches: retrying for ever, an error that hides the last cause.
TEST_F(FetchTest, EndsAtItsLimit) {
  failures = 1000;
  try {
    fetch();
    FAIL();
  } catch (const kj::Exception& e) {
    EXPECT_EQ(ErrorKind::kUnavailable, kindOf(e));
    EXPECT_THAT(messageOf(e).cStr(), HasSubstr("within 70 s: the server answered 503 Busy"));
    EXPECT_EQ(nullptr, strstr(messageOf(e).cStr(), "u-1"));
  }
  EXPECT_LE(timer.now() - kj::origin<kj::TimePoint>(), 80 * kj::SECONDS);
}

}  // namespace
}  // namespace talos::machined
