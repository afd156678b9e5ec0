#include "machined/config/controllers/platform-facts-file.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sys/stat.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/test-tree.h"
#include "machined/config/controllers/platform-controller.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/resources/test-store.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

KnownFacts factsWith(kj::StringPtr hostname) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<rpc::PlatformFacts>();
  root.initNetwork().setHostname(hostname);
  root.initExternalAddresses(1).set(0, "203.0.113.7");
  return KnownFacts(root.asReader());
}

struct PlatformFactsFileTest : testing::Test {
  ~PlatformFactsFileTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  TestTree tree;
  bool mounted = true;

  kj::Own<PlatformFactsFile> open(kj::StringPtr platform = "aws"_kj) {
    return kj::heap<PlatformFactsFile>(
        uv, platform, [this] { return mounted; }, tree.at("platform-facts"));
  }
  std::string hostname(PlatformFactsFile& file) {
    auto earlier = file.earlier();
    file.stateMayBeMounted().wait(io.waitScope);
    auto facts = earlier.wait(io.waitScope);
    return facts.exist() ? facts.get().getNetwork().getHostname().cStr() : "none";
  }
};

}  // namespace

// Catches: facts that the next boot does not find, or that others can read.
TEST_F(PlatformFactsFileTest, TheNextBootHasThem) {
  open()->keep(factsWith("n1")).wait(io.waitScope);
  struct stat info;
  ASSERT_EQ(stat(tree.at("platform-facts").cStr(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(hostname(*open()), "n1");
}

// Catches: facts that came before STATE was mounted, and are lost; a file in the folder below the
// mount of STATE.
TEST_F(PlatformFactsFileTest, FactsAreWrittenWhenStateIsMounted) {
  mounted = false;
  auto file = open();
  file->keep(factsWith("early")).wait(io.waitScope);
  file->stateMayBeMounted().wait(io.waitScope);
  struct stat info;
  EXPECT_NE(stat(tree.at("platform-facts").cStr(), &info), 0);
  mounted = true;
  EXPECT_EQ(hostname(*file), "none");
  EXPECT_EQ(hostname(*open()), "early");
}

// Catches: a boot that fails because of a damaged file, a network of another platform that is
// applied after the disk was moved.
TEST_F(PlatformFactsFileTest, DamagedOnesAndAnotherPlatformsDoNotCount) {
  EXPECT_EQ(hostname(*open()), "none");
  open()->keep(factsWith("n1")).wait(io.waitScope);
  EXPECT_EQ(hostname(*open("gcp")), "none");
  auto whole = talos::readFile(tree.at("platform-facts"));
  for (auto size : {size_t{0}, size_t{8}, whole.size() / 2, whole.size() - 8}) {
    tree.file("platform-facts", kj::str(whole.slice(0, size)), 0600);
    EXPECT_EQ(hostname(*open()), "none") << size;
  }
}

// Catches: a machine without its addresses while the service that they lead to is down; facts of an
// earlier boot that replace those of this boot.
TEST_F(PlatformFactsFileTest, TheControllerUsesThemUntilTheServiceAnswers) {
  open()->keep(factsWith("earlier")).wait(io.waitScope);
  auto file = open();
  auto answer = kj::newPromiseAndFulfiller<KnownFacts>();
  Registry registry;
  TestClock clock;
  Store store(registry, clock);
  kj::Function<kj::Promise<KnownFacts>()> facts = [&] { return kj::mv(answer.promise); };
  PlatformController controller({.platform = "aws",
                                 .timer = io.provider->getTimer(),
                                 .random = [] { return 0.5; },
                                 .facts = kj::mv(facts),
                                 .file = *file});
  auto woken = kj::newPromiseAndFulfiller<void>();
  controller.wakeBy([&] { woken.fulfiller->fulfill(); });
  auto stated = [&] {
    woken.promise.wait(io.waitScope);
    woken = kj::newPromiseAndFulfiller<void>();
    controller.reconcile(store).wait(io.waitScope);
    auto config = KJ_ASSERT_NONNULL(store.tryGet<rpc::PlatformConfigSpec>(kPlatformConfigId));
    return std::string(config.getNetwork().getHostname().cStr());
  };
  file->stateMayBeMounted().wait(io.waitScope);
  EXPECT_EQ(stated(), "earlier");
  answer.fulfiller->fulfill(factsWith("now"));
  EXPECT_EQ(stated(), "now");
}

}  // namespace talos::machined
