// Memory of a message after it was freed, on either side.
#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "common/memory/zeroize.h"
#include "common/testing/sanitizers.h"
#include "common/testing/secrets-in-memory.h"
#include "common/wire/rpc-server.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

constexpr TestSecret kAsked{"what-the-client-"_kj, "applies-4711"_kj};
constexpr TestSecret kAnswered{"what-the-node-"_kj, "generates-0815"_kj};

kj::String padded(const TestSecret& secret) {
  auto text = secret.text();
  KJ_DEFER(zeroize(text));
  // The text is as long as a config, so that the text gets its own segment.
  return kj::str(text, kj::repeat('.', 20'000), text);
}

class Generator final : public rpc::Configuration::Server {
  kj::Promise<void> generate(GenerateContext context) override {
    auto file = context.getResults().initDocuments(1)[0];
    auto text = padded(kAnswered);
    KJ_DEFER(zeroize(text));
    file.setContent(text.asBytes());
    return kj::READY_NOW;
  }
  kj::Promise<void> apply(ApplyContext context) override { return kj::NEVER_DONE; }
};

struct SecretMessages : testing::Test {
  ~SecretMessages() noexcept override {}
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "what was given back is not overwritten then";
  }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
};

// Catches: a config with all its keys that stays in freed memory, where a core dump or a bug in the
// next allocation can reveal it.
TEST_F(SecretMessages, NothingIsLeftOfARequestAndItsAnswer) {
  {
    auto both = io.provider->newTwoWayPipe();
    auto serving = serveConnection(timer, kj::mv(both.ends[0]), kj::heap<Generator>())
                       .eagerlyEvaluate(nullptr);
    capnp::TwoPartyClient client(*both.ends[1]);
    auto configuration = client.bootstrap().castAs<rpc::Configuration>();
    {
      auto request = configuration.generateRequest();
      auto text = padded(kAsked);
      KJ_DEFER(zeroize(text));
      request.initRequest().setClusterName(text);
      EXPECT_LT(0u, kAsked.copies()) << "the search finds nothing";
      auto answer = request.send().wait(io.waitScope);
      EXPECT_EQ(20'000 + 2 * kAnswered.size(), answer.getDocuments()[0].getContent().size());
    }
    // Dropped before it is answered.
    auto request = configuration.applyRequest();
    auto text = padded(kAsked);
    KJ_DEFER(zeroize(text));
    request.initRequest().setDocument(text.asBytes());
    auto pending = request.send();
    EXPECT_FALSE(pending.poll(io.waitScope));
  }
  EXPECT_EQ(0u, kAsked.copies());
  EXPECT_EQ(0u, kAnswered.copies());
}

}  // namespace
}  // namespace talos
