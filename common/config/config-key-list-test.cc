#include "common/config/config-key-list.h"

#include <capnp/message.h>
#include <gmock/gmock.h>

#include <string>

#include "common/base/error.h"
#include "common/testing/printing.h"

namespace talos::config {
namespace {

using ::testing::HasSubstr;

std::string without(std::string list, const std::string& line) {
  auto at = list.find("\n" + line + "\n");
  EXPECT_NE(at, std::string::npos) << line;
  return list.erase(at, line.size() + 1);
}

struct KeyList : ::testing::Test {
  capnp::MallocMessageBuilder message;
  Config::Builder config = message.initRoot<Config>();
  std::string list = keyList().cStr();

  ~KeyList() noexcept override {}
  KeyList() {
    config.setVersion("v1alpha1");
    auto machine = config.initMachine();
    machine.setToken("abc");
    auto interfaces = machine.initNetwork().initInterfaces(2);
    for (auto i : interfaces) i.initBond().setMode(BondMode::LACP);
    auto sysctls = machine.initSysctls(1);
    sysctls[0].setKey("net.ipv4.ip_forward");
    auto mirrors = machine.initRegistries().initMirrors(1);
    mirrors[0].setKey("docker.io");
    mirrors[0].initValue().initEndpoints(1).set(0, "http://10.5.0.1:5000");
  }
  kj::String missing(const std::string& known) {
    return kj::strArray(keysNotIn(known.c_str(), config), ", ");
  }
};

// Catches: a key of this system that its own list lacks, so that no node could be upgraded to it.
TEST_F(KeyList, OwnListHasAllKeys) {
  EXPECT_EQ(missing(list), "");
  EXPECT_THAT(list, HasSubstr("\nmachine.network.interfaces[].bond.mode\n"));
  EXPECT_THAT(list, HasSubstr("\nmachine.registries.mirrors{}.endpoints\n"));
  EXPECT_LT(list.size(), kMostKeyListBytes / 2);
}

// Catches: a key that the other system refuses and that is not named, is named more than once, or
// is named with all keys below it; a key that is named although the config does not set it.
TEST_F(KeyList, MissingKeysAreNamedOnce) {
  EXPECT_EQ(missing(without(list, "machine.network.interfaces[].bond.mode")),
            "machine.network.interfaces[].bond.mode");
  EXPECT_EQ(missing(without(list, "machine.network.interfaces[].bond")),
            "machine.network.interfaces[].bond");
  EXPECT_EQ(missing(without(list, "machine.registries.mirrors{}.endpoints")),
            "machine.registries.mirrors{}.endpoints");
  EXPECT_EQ(missing(without(without(list, "machine.sysctls"), "machine.token")),
            "machine.token, machine.sysctls");
  EXPECT_EQ(missing(without(list, "cluster.clusterName")), "");
  auto documents = config.initDocuments(2);
  documents.set(0, "VolumeConfig");
  documents.set(1, "VolumeConfig[STATE].encryption");
  EXPECT_EQ(missing(list), "");
  EXPECT_EQ(missing(without(list, "VolumeConfig")), "VolumeConfig");
}

// Catches: a file of another kind under that name, after which each key would seem to be unknown.
TEST_F(KeyList, AnotherTextIsNone) {
  for (auto wrong : {"machine", "machine\n\ncluster\n", "a b\n", "machine\r\n", "\x1b[2J\n"}) {
    EXPECT_EQ(ErrorKind::kInvalidArgument,
              kindOf(KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] { missing(wrong); }))))
        << wrong;
  }
}

}  // namespace
}  // namespace talos::config
