// The balancer of API servers that the config enables.
#include "machined/config/controllers/test-machine-config.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"

namespace talos::machined {
namespace {

struct KubePrismControllerTest : public ConfigTest {
  ~KubePrismControllerTest() noexcept override {}

  kj::Own<Controller> controller = kubePrismController(deps);

  // Returns the balancer for a config of this type and these keys of its machine.
  std::string follow(kj::StringPtr machineType, kj::StringPtr more,
                     kj::StringPtr endpoint = "https://api.example.org") {
    publish(kj::str("machine: {type: ", machineType, more, "}\n",
                    "cluster: {controlPlane: {endpoint: '", endpoint,
                    "', localAPIServerPort: 6444}}\n"));
    return follow();
  }
  std::string follow() {
    controller->reconcile(store).wait(io.waitScope);
    KJ_IF_MAYBE (spec, store.tryGet<rpc::KubePrismConfigSpec>("k8s-loadbalancer-config")) {
      auto servers = KJ_MAP(one, spec->getEndpoints()) {
        return kj::str(" ", one.getHost(), ":", one.getPort());
      };
      return kj::str(spec->getHost(), ":", spec->getPort(), kj::strArray(servers, "")).cStr();
    }
    return "off";
  }
  void know(std::initializer_list<kj::StringPtr> addresses, uint32_t port) {
    putRecord<rpc::ApiEndpointsSpec>(
        store, "kube-apiserver",
        [&](auto spec) {
          auto list = spec.initAddresses(static_cast<unsigned>(addresses.size()));
          unsigned i = 0;
          for (auto address : addresses) list.set(i++, address);
          spec.setPort(port);
        },
        "kubed");
  }
};

constexpr kj::StringPtr kOn = ", features: {kubePrism: {enabled: true}}"_kj;

// Catches: a balancer without the key, or at another port than that of the config; one that a
// restarted brain ends before it knows its config.
TEST_F(KubePrismControllerTest, IsOnIfTheConfigEnablesIt) {
  EXPECT_EQ("off", follow());
  EXPECT_EQ("off", follow("worker", ""));
  EXPECT_EQ("off", follow("worker", ", features: {kubePrism: {enabled: false, port: 7446}}"));
  EXPECT_EQ("off", follow("worker", ", features: {kubePrism: {enabled: true, port: 443}}"));
  EXPECT_EQ("127.0.0.1:7445 api.example.org:443", follow("worker", kOn));
  EXPECT_EQ("127.0.0.1:7446 api.example.org:443",
            follow("worker", ", features: {kubePrism: {enabled: true, port: 7446}}"));
  MachineConfigReader restarted;
  std::swap(config, restarted);
  EXPECT_EQ("127.0.0.1:7446 api.example.org:443", follow());
  std::swap(config, restarted);
  EXPECT_EQ("off", follow("worker", ""));
}

// Catches: a worker that knows no server but the endpoint; a control-plane node that does not use
// its own server; a server with two entries, or with the port of another one; a balancer that
// connects to itself.
TEST_F(KubePrismControllerTest, ItsServersAreTheEndpointItsOwnAndThoseOfKubernetes) {
  EXPECT_EQ("127.0.0.1:7445 fd00::1:7443 127.0.0.1:6444",
            follow("controlplane", kOn, "https://[fd00::1]:7443"));
  for (auto balancer : {"https://localhost:7445", "https://127.0.0.1:7445"}) {
    EXPECT_EQ("127.0.0.1:7445 127.0.0.1:6444", follow("controlplane", kOn, balancer));
  }
  know({"10.5.0.2", "10.5.0.3"}, 0);
  EXPECT_EQ("127.0.0.1:7445 10.5.0.2:6444 127.0.0.1:6444 10.5.0.3:6444",
            follow("controlplane", kOn, "https://10.5.0.2:6444"));
  know({"10.5.0.2", "10.5.0.3"}, 7443);
  EXPECT_EQ("127.0.0.1:7445 10.5.0.2:6444 10.5.0.2:7443 10.5.0.3:7443",
            follow("worker", kOn, "https://10.5.0.2:6444"));
  auto known = KJ_ASSERT_NONNULL(store.tryGet<rpc::KubePrismEndpointsSpec>("k8s-cluster"));
  EXPECT_STREQ("10.5.0.2 10.5.0.2 10.5.0.3", kj::strArray(known.getHosts(), " ").cStr());
  EXPECT_EQ(7443u, known.getEndpoints()[2].getPort());
}

}  // namespace
}  // namespace talos::machined
