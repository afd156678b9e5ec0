#include "machined/config/controllers/test-machine-config.h"
#include "machined/platforms/platform.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {

kj::Own<Controller> metadataBlockController(ControllerDependencies& deps);

namespace {

struct MetadataBlockControllerTest : public ConfigTest {
  ~MetadataBlockControllerTest() noexcept override {}

  kj::Own<Controller> controller = metadataBlockController(deps);

  // Returns the addresses after a config with these features.
  std::string follow(kj::StringPtr features) {
    publish(kj::str("machine: {type: worker", features,
                    "}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"));
    return follow();
  }
  std::string follow() {
    controller->reconcile(store).wait(io.waitScope);
    KJ_IF_MAYBE (spec, store.tryGet<rpc::MetadataBlockSpecSpec>(deps.platform)) {
      return kj::strArray(spec->getAddresses(), " ").cStr();
    }
    return "none";
  }
};

// Catches: a pod that reaches the metadata service by default; a key without an effect; rules that
// a restarted brain removes before it knows its config. The key:
// machine.features.podMetadataAccess.
TEST_F(MetadataBlockControllerTest, TheServiceOfThePlatformUnlessTheConfigPermitsIt) {
  deps.platform = "aws";
  deps.metadataAddresses = texts({"169.254.169.254", "fd00:ec2::254"});
  EXPECT_EQ("none", follow());
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow(""));
  EXPECT_EQ("none", follow(", features: {podMetadataAccess: true}"));
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow(", features: {podMetadataAccess: false}"));
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_EQ("169.254.169.254 fd00:ec2::254", follow());
}

// Catches: a record without addresses, on a machine without such a service.
TEST_F(MetadataBlockControllerTest, NoServiceNoRecord) {
  deps.platform = "metal";
  EXPECT_EQ("none", follow(""));
}

}  // namespace
}  // namespace talos::machined
