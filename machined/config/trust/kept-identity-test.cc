// The API certificate of a worker across a reboot.
#include "machined/config/trust/kept-identity.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/trust/join-controller.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

// One boot of a node: its store and its controller.
struct KeptBoot {
  KeptBoot(UvLoop& uv, kj::Timer& timer, const kj::Clock& clock, kj::StringPtr file,
           const bool& mounted, kj::Function<kj::Maybe<config::Config::Reader>()> read)
      : store(registry, clock),
        read(kj::mv(read)),
        runtime(store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }) {
    runtime.add(kj::heap<KeptIdentityController>(
        KeptIdentityController::Dependencies{.uv = uv,
                                             .store = store,
                                             .readConfig = [this](Store&) { return this->read(); },
                                             .isMounted = [&mounted] { return mounted; },
                                             .file = file}));
  }
  Registry registry;
  Store store;
  kj::Function<kj::Maybe<config::Config::Reader>()> read;
  ControllerRuntime runtime;
};

struct KeptIdentityTest : ::testing::Test {
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  UvLoop uv{io.unixEventPort, timer};
  TestClock clock;
  char folder[32] = "/tmp/kept-identity-XXXXXX";
  kj::String file;
  bool mounted = true, hasKey = false;
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  pki::CertificateAndKey other = pki::makeAuthority({.organization = "talos"});
  capnp::MallocMessageBuilder config;
  kj::Maybe<kj::Own<KeptBoot>> boot;

  KeptIdentityTest() {
    KJ_ASSERT(mkdtemp(folder) != nullptr);
    file = kj::str(folder, "/api-certificate");
    config.initRoot<config::Config>();
  }
  ~KeptIdentityTest() noexcept override {
    boot = nullptr;
    removeTree(folder);
  }
  kj::Maybe<config::Config::Reader> read() {
    auto root = config.getRoot<config::Config>();
    setPair(root.getMachine().getCa(), authority, hasKey);
    if (!hasKey) root.getMachine().getCa().setKey(nullptr);
    return root.asReader();
  }
  // Starts a boot of a node that depends on trustd, with this CA, or its hash.
  Store& start(const pki::CertificateAndKey& ca, bool byHash = false) {
    boot = nullptr;
    auto& now = *boot.emplace(
        kj::heap<KeptBoot>(uv, timer, clock, file, mounted, KJ_BIND_METHOD(*this, read)));
    putRecord<rpc::JoinSpec>(now.store, kJoinId, [&](auto spec) {
      if (byHash) {
        spec.setCaHash(pki::authorityHash(ca.certificate));
      } else {
        spec.setCa(ca.certificate.asBytes());
      }
    });
    return now.store;
  }
  void put(Store& store, const pki::CertificateAndKey& pair) {
    putRecord<rpc::ApiCertificateSpec>(
        store, "api",
        [&](auto spec) {
          spec.setCa(authority.certificate.asBytes());
          spec.initServer().setCrt(pair.certificate.asBytes());
          spec.getServer().setKey(pair.key.bytes());
        },
        kApidOwner);
  }
  template <typename F>
  bool soon(F&& condition) {
    auto until = timer.now() + 10 * kj::SECONDS;
    while (!condition() && timer.now() < until) {
      timer.afterDelay(1 * kj::MILLISECONDS).wait(io.waitScope);
    }
    return condition();
  }
  KeptBoot& current() { return *KJ_ASSERT_NONNULL(boot); }
  bool isKept() { return access(file.cStr(), F_OK) == 0; }
  bool isIn(Store& store, kj::StringPtr certificate) {
    KJ_IF_MAYBE (there, store.tryGet<rpc::ApiCertificateSpec>("api")) {
      return kj::heapString(there->getServer().getCrt().asChars()) == certificate;
    }
    return false;
  }
};

// Catches: a worker that has no certificate after a reboot while no trustd answers, or after the
// token of the control plane has changed; a worker that restores the last certificate but one; a
// key that others may read; a record that apid may not replace.
TEST_F(KeptIdentityTest, IsTakenUpAfterAReboot) {
  auto first = pki::issue(authority.certificate, authority.key, {});
  auto second = pki::issue(authority.certificate, authority.key, {});
  auto& store = start(authority);
  put(store, first);
  ASSERT_TRUE(soon([&] { return isKept(); }));
  auto size = readFile(file);
  put(store, second);
  ASSERT_TRUE(soon([&] { return readFile(file) != size; }));
  struct stat mode;
  ASSERT_EQ(stat(file.cStr(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600u);
  for (bool byHash : {false, true}) {
    auto& next = start(authority, byHash);
    EXPECT_TRUE(soon([&] { return isIn(next, second.certificate); })) << byHash;
    put(next, first);
    EXPECT_TRUE(isIn(next, first.certificate));
    ASSERT_TRUE(soon([&] { return readFile(file) == size; }));
    put(next, second);
    ASSERT_TRUE(soon([&] { return readFile(file) != size; }));
  }
}

// Catches: a newer certificate in the store, from an apid that was faster or from before a restart
// of machined, that the file's certificate replaces.
TEST_F(KeptIdentityTest, ANewerOneInTheStoreStays) {
  auto old = pki::issue(authority.certificate, authority.key, {});
  auto newer = pki::issue(authority.certificate, authority.key, {});
  put(start(authority), old);
  ASSERT_TRUE(soon([&] { return isKept(); }));
  auto before = readFile(file);
  mounted = false;
  auto& store = start(authority);
  put(store, newer);
  ASSERT_TRUE(soon([&] { return current().runtime.idle(); }));
  mounted = true;
  current().runtime.poke("runtime.KeptIdentityController");
  ASSERT_TRUE(soon([&] { return readFile(file) != before || !isIn(store, newer.certificate); }));
  EXPECT_TRUE(isIn(store, newer.certificate));
}

// Catches: a node that has moved to another cluster and still trusts the clients of the old one; a
// damaged file that prevents it from joining.
TEST_F(KeptIdentityTest, IsNotTakenUpForAnotherCaOrWhenItIsDamaged) {
  auto pair = pki::issue(authority.certificate, authority.key, {});
  auto fresh = pki::issue(other.certificate, other.key, {});
  put(start(authority), pair);
  ASSERT_TRUE(soon([&] { return isKept(); }));
  auto good = readFile(file);
  auto cut = kj::heapString(good.slice(0, good.size() / 2));
  auto changed = kj::str(good);
  for (size_t at = 100; at < changed.size(); at += 40) changed[at] ^= 1;
  struct Row {
    const char* of;
    kj::StringPtr content;
    const pki::CertificateAndKey& ca;
    bool byHash;
  } rows[] = {{"another CA", good, other, false},
              {"another hash", good, other, true},
              {"cut", cut, authority, false},
              {"changed", changed, authority, false}};
  for (auto& row : rows) {
    writeFileAtomically(file, row.content, 0600);
    auto& store = start(row.ca, row.byHash);
    // A join does not wait for the file: the controller has decided about the file's certificate by
    // the time it keeps the next one. The test observes each change of the store until then.
    bool taken = false;
    auto watched = store.onChange<rpc::ApiCertificateSpec>(
        [&] { taken = taken || isIn(store, pair.certificate); });
    ASSERT_TRUE(soon([&] { return current().runtime.idle(); })) << row.of;
    EXPECT_FALSE(taken) << row.of;
    EXPECT_FALSE(isIn(store, pair.certificate)) << row.of;
    put(store, fresh);
    EXPECT_TRUE(soon([&] { return readFile(file) != row.content; })) << row.of;
  }
}

// Catches: a key that stays on the disk of a node that has become a control-plane node; a file in
// memory that counts as kept.
TEST_F(KeptIdentityTest, IsKeptOnStateAloneAndRemovedWithTheCasKey) {
  auto pair = pki::issue(authority.certificate, authority.key, {});
  mounted = false;
  auto& store = start(authority);
  put(store, pair);
  ASSERT_TRUE(soon([&] { return current().runtime.idle(); }));
  EXPECT_FALSE(isKept());
  mounted = true;
  current().runtime.poke("runtime.KeptIdentityController");
  ASSERT_TRUE(soon([&] { return isKept(); }));
  hasKey = true;
  current().runtime.poke("runtime.KeptIdentityController");
  EXPECT_TRUE(soon([&] { return !isKept(); }));
}

}  // namespace
}  // namespace talos::machined
