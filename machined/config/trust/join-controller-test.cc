// The request to trustd of a machine without the key of machine.ca.
#include "machined/config/trust/join-controller.h"

#include <unistd.h>

#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/testing/test-tree.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/trust/trust-config.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kToken = "abcdef.0123456789abcdef"_kj;

kj::String joined(capnp::List<capnp::Text>::Reader list) {
  return kj::strArray(list, " ");
}

struct JoinTest : testing::Test {
  ~JoinTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  bool withKey = false, present = true, mounted = false, toCome = false;
  TestTree tree;
  kj::String file = tree.at("join-key");
  kj::StringPtr token = kToken;
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  pki::CertificateAndKey authority = pki::makeAuthority({.organization = "talos"});
  ControllerRuntime runtime{store, [](kj::StringPtr) {}, timer, clock, [] { return 0.5; }};

  kj::Maybe<kj::Own<capnp::MallocMessageBuilder>> built;
  kj::Maybe<config::Config::Reader> read() {
    if (!present) return nullptr;
    auto& message = *built.emplace(kj::heap<capnp::MallocMessageBuilder>());
    auto root = message.initRoot<config::Config>();
    auto machine = root.getMachine();
    setPair(machine.getCa(), authority, withKey);
    machine.setCaHash("sha256:00");
    machine.initAcceptedCAs(1)[0].setCrt("accepted"_kj.asBytes());
    machine.setToken(token);
    fillTexts(machine.initCertSANs(2), texts({"10.9.9.9", "worker.example.org"}));
    root.getCluster().getControlPlane().setEndpoint("https://api.example.org:6443");
    fillTexts(root.getCluster().getTrustd().initEndpoints(1), texts({"10.5.0.2"}));
    return root.asReader();
  }
  void start() {
    putRecord<rpc::HostnameSpecSpec>(store, "hostname", [](auto spec) {
      spec.setHostname("w1");
      spec.setDomainname("example.org");
    });
    runtime.add(kj::heap<JoinController>(
        [this](Store&) { return read(); },
        kj::heap<JoinKey>(JoinKey::Dependencies{.uv = uv,
                                                .isMounted = [this] { return mounted; },
                                                .isStateToCome = [this] { return toCome; },
                                                .file = file})));
    io.waitScope.poll();
  }
  void poke() {
    runtime.poke("secrets.JoinController");
    io.waitScope.poll();
  }
};

// Catches: names that trustd never signs, which would make it refuse the whole request.
TEST_F(JoinTest, ASpecOfConfigAndNames) {
  start();
  auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::JoinSpec>(kJoinId));
  EXPECT_EQ(joined(spec.getEndpoints()), "api.example.org 10.5.0.2");
  EXPECT_EQ(spec.getToken(), kToken);
  EXPECT_EQ(kj::str(spec.getCa().asChars()), authority.certificate);
  EXPECT_EQ(spec.getCaHash(), "sha256:00");
  EXPECT_EQ(kj::str(spec.getAcceptedCAs().asChars()), "accepted");
  EXPECT_EQ(spec.getCommonName(), "w1.example.org");
  EXPECT_EQ(joined(spec.getDnsNames()), "w1 w1.example.org worker.example.org");
  EXPECT_EQ(joined(spec.getAddresses()), "10.9.9.9");
}

// Catches: a worker whose config names one control-plane node, and that is lost with that node.
TEST_F(JoinTest, AsksTheNodesThatKubernetesHas) {
  auto endpoints = [this] {
    io.waitScope.poll();
    auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::JoinSpec>(kJoinId));
    return std::string(joined(spec.getEndpoints()).cStr());
  };
  auto member = [this](kj::StringPtr name, kj::StringPtr type, kj::StringPtr address) {
    putRecord<rpc::MemberSpec>(store, name, [&](auto spec) {
      spec.setMachineType(type);
      spec.initAddresses(1).set(0, address);
    });
  };
  start();
  putRecord<rpc::ApiEndpointsSpec>(store, "kube-apiserver", [](auto spec) {
    fillTexts(spec.initAddresses(2), texts({"10.5.0.2", "10.5.0.3"}));
  });
  EXPECT_EQ(endpoints(), "api.example.org 10.5.0.2 10.5.0.3");
  member("m4", "controlplane", "10.5.0.4");
  member("w1", "worker", "10.5.0.5");
  EXPECT_EQ(endpoints(), "api.example.org 10.5.0.2 10.5.0.3 10.5.0.4");
}

// Catches: a control-plane machine that sends requests to another one, and a spec that is not
// removed when it is no longer needed.
TEST_F(JoinTest, NoneWithTheKeyOrWithoutAConfig) {
  withKey = true;
  start();
  EXPECT_TRUE(store.tryGet<rpc::JoinSpec>(kJoinId) == nullptr);
  withKey = false;
  poke();
  EXPECT_TRUE(store.tryGet<rpc::JoinSpec>(kJoinId) != nullptr);
  present = false;
  poke();
  EXPECT_TRUE(store.tryGet<rpc::JoinSpec>(kJoinId) == nullptr);
}

// Catches: a join token without its key, or with another key after each change; a key for a node
// without a token.
TEST_F(JoinTest, AJoinTokenHasOneKey) {
  token = "join-abcdef.0123456789abcdef";
  start();
  auto key = [this] {
    auto spec = KJ_ASSERT_NONNULL(store.tryGet<rpc::JoinSpec>(kJoinId));
    return kj::heapString(spec.getKey().asChars());
  };
  auto first = key();
  EXPECT_GT(first.size(), 0u);
  token = "join-bcdefg.0123456789abcdef";
  poke();
  EXPECT_EQ(key(), first);
  token = kToken;
  poke();
  EXPECT_EQ(key(), "");
}

// Catches: a request by a node during its installation that uses up the token.
TEST_F(JoinTest, HasNoKeyBeforeItsStateIsThere) {
  token = "join-abcdef.0123456789abcdef";
  toCome = true;
  start();
  EXPECT_EQ(KJ_ASSERT_NONNULL(store.tryGet<rpc::JoinSpec>(kJoinId)).getKey().size(), 0u);
}

// Catches: a boot that removes the key because it has not read its config yet, so that the token
// was used for a lost key; a key that stays when the config has another token.
TEST_F(JoinTest, TheKeyOutlivesABootThatHasNoConfigYet) {
  mounted = true;
  present = false;
  writeFileAtomically(file, "a key"_kj, 0600);
  auto settled = [this] {
    // Waits until the thread pool has finished the controller's work.
    for (unsigned i = 0; i < 8; ++i) uv.blocking([] { return 0; }).wait(io.waitScope);
    return access(file.cStr(), F_OK) == 0;
  };
  start();
  EXPECT_TRUE(settled());
  present = true;
  poke();
  EXPECT_FALSE(settled()) << "its token is no join token";
}

// Catches: a service apid that does not report why it is not ready.
TEST_F(JoinTest, WhyNotJoined) {
  EXPECT_TRUE(whyNotJoined(store) == nullptr) << "it asks nobody";
  start();
  EXPECT_EQ(whyNotJoined(store).orDefault(kj::str("-")), "has no certificate yet");
  auto setReady = [&](bool ready) {
    putRecord<rpc::JoinStatusSpec>(store, kJoinId, [&](auto spec) {
      spec.setReady(ready);
      spec.setMessage("10.5.0.2: connection refused");
    });
  };
  setReady(false);
  EXPECT_EQ(whyNotJoined(store).orDefault(kj::str("-")), "10.5.0.2: connection refused");
  setReady(true);
  EXPECT_TRUE(whyNotJoined(store) == nullptr);
}

TEST(JoinConfig, EndpointsOfTheConfigEachOnce) {
  auto known = knownConfig(
      "machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n"
      "  install: {disk: /dev/vda}\n"
      "cluster:\n  controlPlane: {endpoint: \"https://[fd00::2]:6443\"}\n"
      "  token: abcdef.0123456789abcdef\n"
      "  trustd: {endpoints: [10.5.0.2, \"fd00::2\", cp.example.org, 10.5.0.2]}\n");
  EXPECT_EQ(kj::strArray(trustdEndpoints(known.get()), " "), "fd00::2 10.5.0.2 cp.example.org");
  EXPECT_TRUE(asksTrustd(known.get()));
}

}  // namespace
}  // namespace talos::machined
