// The key of a join across crashes and reboots.
#include "machined/config/trust/join-key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

struct JoinKeyTest : ::testing::Test {
  ~JoinKeyTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  UvLoop uv{io.unixEventPort, timer};
  TestTree tree;
  kj::String file = tree.at("join-key");
  bool mounted = true, toCome = false;

  kj::Own<JoinKey> boot() {
    return kj::heap<JoinKey>(JoinKey::Dependencies{.uv = uv,
                                                   .isMounted = [this] { return mounted; },
                                                   .isStateToCome = [this] { return toCome; },
                                                   .file = file});
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::String get(JoinKey& key, kj::StringPtr known = "") { return kj::str(wait(key.get(known))); }
  bool isKept() { return access(file.cStr(), F_OK) == 0; }
};

// Catches: a key that is not on the disk before the first request to trustd, so that a power cut
// costs the token; a key that others may read; another key after each boot.
TEST_F(JoinKeyTest, IsOnStateBeforeItIsUsed) {
  auto first = boot();
  auto key = get(*first);
  ASSERT_TRUE(isKept());
  struct stat mode;
  ASSERT_EQ(stat(file.cStr(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600u);
  pki::makeRequest(key, {});
  EXPECT_EQ(get(*first), key);
  EXPECT_EQ(get(*boot()), key);
}

// Catches: a key in memory that replaces the key for which the token was used; a node without a
// STATE that cannot join, or that has another key after a restart of machined.
TEST_F(JoinKeyTest, WaitsForNoStateAndGivesWayToIt) {
  auto stored = get(*boot());
  mounted = false;
  auto next = boot();
  auto memory = get(*next);
  EXPECT_NE(memory, stored);
  EXPECT_EQ(get(*boot(), memory), memory);
  mounted = true;
  EXPECT_EQ(get(*next), stored);
  // Without a file the key in use is stored.
  ASSERT_EQ(unlink(file.cStr()), 0);
  EXPECT_EQ(get(*boot(), memory), memory);
  EXPECT_EQ(get(*boot()), memory);
}

// Catches: a token that is used, while the node is installed, for a key which is lost with the
// reboot; a node that loses its key because STATE is unmounted during its shutdown.
TEST_F(JoinKeyTest, WaitsForTheStateOfAnInstallation) {
  mounted = false;
  toCome = true;
  auto now = boot();
  EXPECT_EQ(get(*now), "");
  EXPECT_FALSE(isKept());
  mounted = true;
  toCome = false;
  auto key = get(*now);
  EXPECT_NE(key, "");
  EXPECT_TRUE(isKept());
  mounted = false;
  toCome = true;
  EXPECT_EQ(get(*now), key);
  EXPECT_EQ(get(*boot(), key), key) << "a new brain, which has it from the store";
}

// Catches: a damaged file, or a disk that cannot be written, that prevents a node from joining.
TEST_F(JoinKeyTest, ADamagedFileIsReplacedAndAFullDiskSurvived) {
  auto whole = kj::str(readFile((get(*boot()), file)));
  for (auto& content : {kj::str(whole.slice(0, whole.size() / 2)), kj::str(), kj::str("x"),
                        kj::str(kj::repeat('x', 512))}) {
    writeFileAtomically(file, content, 0600);
    auto key = get(*boot());
    pki::makeRequest(key, {});
    EXPECT_EQ(get(*boot()), key);
  }
  file = tree.at("missing/join-key");
  auto key = get(*boot());
  pki::makeRequest(key, {});
  EXPECT_FALSE(isKept());
}

// Catches: a key that stays on the disk of a node that has another token now.
TEST_F(JoinKeyTest, IsRemovedWithTheToken) {
  auto now = boot();
  auto key = get(*now);
  wait(now->remove());
  EXPECT_FALSE(isKept());
  EXPECT_NE(get(*now), key);
  wait(boot()->remove());
  EXPECT_FALSE(isKept());
  wait(boot()->remove());  // without a file
}

}  // namespace
}  // namespace talos::machined
