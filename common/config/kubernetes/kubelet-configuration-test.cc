#include "common/config/kubernetes/kubelet-configuration.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::config {
namespace {

using Pairs = std::initializer_list<std::pair<kj::StringPtr, kj::StringPtr>>;

template <typename List>
void fillPairs(List out, Pairs pairs) {
  unsigned i = 0;
  for (auto& [key, value] : pairs) {
    out[i].setKey(key);
    out[i++].setValue(value);
  }
}

bool requests(Pairs fields, Pairs arguments, bool cloud = false) {
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<Config>();
  auto kubelet = config.initMachine().initKubelet();
  fillPairs(kubelet.initExtraConfig().initOthers(static_cast<unsigned>(fields.size())), fields);
  fillPairs(kubelet.initExtraArgs(static_cast<unsigned>(arguments.size())), arguments);
  config.initCluster().initExternalCloudProvider().setEnabled(cloud);
  return requestsServingCertificate(config.asReader());
}

// Catches: a kubelet that requests a serving certificate for addresses which it cannot prove, or
// beside a certificate of the user's; a user's choice that has no effect.
TEST(ServingCertificate, IsRequestedUnlessTheConfigDecidesOtherwise) {
  EXPECT_TRUE(requests({{"maxPods", "200\n"}}, {{"v", "4"}}));
  EXPECT_FALSE(requests({{"serverTLSBootstrap", "false\n"}}, {}));
  EXPECT_FALSE(requests({{"tlsCertFile", "/var/own.crt\n"}}, {}));
  EXPECT_FALSE(requests({}, {{"tls-cert-file", "/var/own.crt"}}));
  EXPECT_FALSE(requests({}, {{"cloud-provider", "external"}}));
  EXPECT_FALSE(requests({}, {}, true));
  EXPECT_TRUE(
      requests({{"serverTLSBootstrap", "true  # all addresses are the node's\n"}}, {}, true));
}

// Catches: an API server that verifies a kubelet whose argument prevails over its field.
TEST(ServingCertificate, FollowsTheArgumentBeforeTheField) {
  EXPECT_FALSE(
      requests({{"serverTLSBootstrap", "true\n"}}, {{"rotate-server-certificates", "false"}}));
  EXPECT_TRUE(
      requests({{"serverTLSBootstrap", "false\n"}}, {{"rotate-server-certificates", "true"}}));
}

}  // namespace
}  // namespace talos::config
