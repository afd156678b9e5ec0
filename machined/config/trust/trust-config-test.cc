#include "machined/config/trust/trust-config.h"

#include <kj/encoding.h>

#include "machined/config/controllers/test-machine-config.h"

namespace talos::machined {
namespace {

kj::String trustDocument(const pki::CertificateAndKey& authority) {
  auto base64 = [](kj::StringPtr text) { return kj::encodeBase64(text.asBytes()); };
  auto pair =
      kj::str("{crt: ", base64(authority.certificate), ", key: ", base64(authority.key), "}");
  return kj::str(
      "version: v1alpha1\n"
      "machine:\n"
      "  type: controlplane\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  certSANs: [api.example.org, 1.2.3.4]\n"
      "  install: {disk: /dev/vda}\n"
      "cluster:\n"
      "  controlPlane: {endpoint: https://10.5.0.2:6443}\n"
      "  apiServer: {certSANs: [k8s.example.org]}\n"
      "  trustd: {endpoints: [10.5.0.3], certLifetime: 30m, anyAddress: true}\n"
      "  network: {dnsDomain: cluster.local, podSubnets: [10.244.0.0/16]}\n"
      "  token: abcdef.0123456789abcdef\n"
      "  ca: ",
      pair,
      "\n"
      "  aggregatorCA: ",
      pair,
      "\n"
      "  serviceAccount: {key: ",
      base64(authority.key),
      "}\n"
      "  etcd: {ca: ",
      pair, "}\n");
}

// Catches: a name, an endpoint or a lifetime of the config that is missing in its certificates.
TEST_F(ConfigTest, NamesEndpointsAndLifetimesOfTheConfig) {
  EXPECT_TRUE(config.tryConfig(store) == nullptr);
  publish(trustDocument(authority));
  auto found = KJ_ASSERT_NONNULL(config.tryConfig(store));
  EXPECT_EQ(machineTypeOf(found), rpc::MachineType::CONTROLPLANE);
  EXPECT_TRUE(hasKey(found.getMachine().getCa()));
  EXPECT_EQ(joined(apiCertSans(found)), "api.example.org 1.2.3.4");
  EXPECT_EQ(joined(trustdEndpoints(found)), "10.5.0.2 10.5.0.3");
  EXPECT_EQ(apiCertLifetime(found) / kj::MINUTES, 30);
  EXPECT_EQ(kindOfFailure([] { knownConfig("machine: [not, a, config]"); }), "InvalidArgument");
}

}  // namespace
}  // namespace talos::machined
