#include "machined/config/network/node-identity-name.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <string>

#include "common/base/file.h"
#include "machined/config/controllers/test-machine-config.h"
#include "machined/config/network/network-controller.h"

namespace talos::machined {
namespace {

using testing::MatchesRegex;

struct IdentityName : public ConfigTest {
  char base[32] = "/tmp/identity-XXXXXX";
  kj::String file;
  bool mounted = false;

  IdentityName() {
    KJ_ASSERT(mkdtemp(base) != nullptr);
    file = kj::str(base, "/node-identity.yaml");
  }
  ~IdentityName() noexcept override { removeTree(base); }

  std::string hostname() {
    poll();
    for (auto spec : store.list<rpc::HostnameSpecSpec>()) return spec.getHostname().cStr();
    return "";
  }
};

// Catches: another name than Talos makes of the same identity: digits 1 to 6 of the first eight
// octets of the SHA-256, 88596e2bd7942bfe, in base 36, 22n8xo555hkou.
TEST_F(IdentityName, IsMadeOfTheIdentity) {
  EXPECT_EQ("talos-2n8-xo5",
            std::string(nameOfIdentity("Utoh3O0ZneV0kT2IUBrh7TgdouRcUW2yzaaMl4VXnCd").cStr()));
}

// Catches: an identity that changes with each boot; a name that is the same on all nodes; a file
// that is cut off and names the node.
TEST_F(IdentityName, IdentityIsKept) {
  auto identity = keptIdentity(file);
  EXPECT_THAT(std::string(identity.cStr()), MatchesRegex("[0-9A-Za-z]{43}"));
  EXPECT_EQ(identity, keptIdentity(file));
  EXPECT_EQ(kj::str("nodeId: ", identity, "\n"), readFile(file));
  struct stat found;
  ASSERT_EQ(0, stat(file.cStr(), &found));
  EXPECT_EQ(0600u, found.st_mode & 07777);
  writeFileAtomically(file, "nodeId: \n"_kj, 0600);
  auto other = keptIdentity(file);
  EXPECT_NE(identity, other);
  EXPECT_EQ(43u, other.size());
}

// Catches: a name that changes with the first address, although the config wants a stable one; a
// node without a name because STATE is not mounted yet; a name that hides that of the config.
TEST_F(IdentityName, NamesANodeWithoutAHostName) {
  writeFileAtomically(file, "nodeId: Utoh3O0ZneV0kT2IUBrh7TgdouRcUW2yzaaMl4VXnCd\n"_kj, 0600);
  runtime.add(kj::heap<NetworkController>(arguments, KJ_BIND_METHOD(config, tryConfig),
                                          [this]() -> kj::Promise<kj::Maybe<kj::String>> {
                                            if (!mounted) return kj::Maybe<kj::String>();
                                            return kj::Maybe<kj::String>(keptIdentity(file));
                                          }));
  auto have = [&](kj::StringPtr keys) {
    publish(kj::str("machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n", keys,
                    "cluster:\n  controlPlane: {endpoint: 'https://10.5.0.2:6443'}\n"));
  };
  have("  features: {stableHostname: true}\n");
  EXPECT_EQ("talos-127-0-1-1", hostname());
  mounted = true;
  putRecord<rpc::MountStatusSpec>(store, "STATE", [](auto) {});
  EXPECT_EQ("talos-2n8-xo5", hostname());
  have("  features: {stableHostname: true}\n  network: {hostname: mine}\n");
  EXPECT_EQ("mine", hostname());
  have("");
  EXPECT_EQ("talos-127-0-1-1", hostname());
}

// Catches: a node without links and addresses because STATE is full; a stable name that comes only
// with the next change of the network; a log line for each attempt.
TEST_F(IdentityName, AnIdentityThatCannotBeReadStopsNoNetwork) {
  unsigned attempts = 0;
  bool full = true;
  runtime.add(kj::heap<NetworkController>(
      arguments, KJ_BIND_METHOD(config, tryConfig),
      [&]() -> kj::Promise<kj::Maybe<kj::String>> {
        ++attempts;
        if (full) return error(ErrorKind::kUnavailable, "No space left on device");
        return kj::Maybe<kj::String>(kj::str("Utoh3O0ZneV0kT2IUBrh7TgdouRcUW2yzaaMl4VXnCd"));
      },
      timer));
  publish(
      "machine:\n  type: worker\n  token: abcdef.0123456789abcdef\n  features: {stableHostname: "
      "true}\n  network: {interfaces: [{interface: eth0, cidr: 10.5.0.3/24}]}\ncluster:\n  "
      "controlPlane: {endpoint: 'https://10.5.0.2:6443'}\n"_kj);
  testing::internal::CaptureStderr();
  EXPECT_EQ("talos-10-5-0-3", hostname());
  EXPECT_TRUE(store.tryGet<rpc::LinkSpecSpec>("eth0") != nullptr);
  EXPECT_TRUE(store.tryGet<rpc::AddressSpecSpec>("eth0/10.5.0.3/24") != nullptr);
  auto before = attempts;
  timer.advanceTo(timer.now() + 60 * kj::SECONDS);
  EXPECT_EQ("talos-10-5-0-3", hostname());
  EXPECT_EQ(before + 1, attempts);
  auto logged = testing::internal::GetCapturedStderr();
  EXPECT_EQ(logged.find("No space left"), logged.rfind("No space left")) << logged;
  EXPECT_NE(logged.npos, logged.find("No space left")) << logged;
  full = false;
  timer.advanceTo(timer.now() + 60 * kj::SECONDS);
  EXPECT_EQ("talos-2n8-xo5", hostname());
}

}  // namespace
}  // namespace talos::machined
