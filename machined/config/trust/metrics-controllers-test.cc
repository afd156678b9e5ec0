// The controllers that give metrics the config and the certificates of the node.
#include "common/base/date.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/config/controllers/test-machine-config.h"
#include "rpc/metrics-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

struct MetricsControllersTest : public ConfigTest {
  ~MetricsControllersTest() noexcept override {}

  void configure(kj::StringPtr key) {
    publish(kj::str("machine: {type: worker, token: abcdef.0123456789abcdef", key,
                    "}\ncluster: {controlPlane: {endpoint: 'https://10.0.0.1:6443'}}\n"));
  }
  std::string endpoint() {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::MetricsEndpointSpec>("metrics")) {
      return kj::str(spec->getPort(), spec->getPlain() ? " plain " : " ", spec->getToken(),
                     spec->getPods() ? "" : " no pods")
          .cStr();
    }
    return "none";
  }
  std::string statusOf(kj::StringPtr id) {
    KJ_IF_MAYBE (spec, store.tryGet<rpc::CertificateStatusSpec>(id)) {
      return kj::str(spec->getSubject(), spec->getAuthority() ? " CA " : " ", spec->getNotAfter(),
                     spec->getProblem().size() > 0 ? " problem" : "")
          .cStr();
    }
    return "none";
  }
};

// Catches: metrics without the key; no metrics with an empty key; an endpoint that stays.
TEST_F(MetricsControllersTest, TheKeyIsTheEndpoint) {
  auto controller = metricsController(deps);
  auto follow = [&] { controller->reconcile(store).wait(io.waitScope); };
  follow();
  EXPECT_EQ("none", endpoint());
  configure("");
  follow();
  EXPECT_EQ("none", endpoint());
  configure(", metrics: {}");
  follow();
  EXPECT_EQ("50002 ", endpoint());
  configure(", metrics: {port: 9100, token: 4sJwq8vGdd0uTq1p}");
  follow();
  EXPECT_EQ("9100 4sJwq8vGdd0uTq1p", endpoint());
  configure(", metrics: {pods: false}");
  follow();
  EXPECT_EQ("50002  no pods", endpoint());
  configure(", metrics: {plain: true}");
  follow();
  EXPECT_EQ("50002 plain ", endpoint());
  configure("");
  follow();
  EXPECT_EQ("none", endpoint());
}

// Catches: the expiry of another certificate; a replaced certificate that keeps its expiry; an
// unreadable certificate that hides the others.
TEST_F(MetricsControllersTest, CertificatesHaveTheirEnds) {
  auto controller = certificateStatusController(deps);
  auto put = [&](kj::Duration lifetime, kj::StringPtr client) {
    auto server = pki::issue(authority.certificate, authority.key,
                             {.commonName = "node", .lifetime = lifetime, .notBefore = clock.time});
    putRecord<rpc::ApiCertificateSpec>(store, "api", [&](auto spec) {
      spec.setCa(authority.certificate.asBytes());
      spec.initServer().setCrt(server.certificate.asBytes());
      spec.initClient().setCrt(client.asBytes());
    });
    controller->reconcile(store).wait(io.waitScope);
  };
  put(24 * kj::HOURS, "");
  auto end = [&](kj::Duration lifetime) {
    return std::string("node ") + dateText(clock.time + lifetime).cStr();
  };
  EXPECT_EQ(end(24 * kj::HOURS), statusOf("api-server"));
  EXPECT_EQ("none", statusOf("api-client"));
  EXPECT_TRUE(statusOf("api-ca").starts_with("talos CA "));
  put(48 * kj::HOURS, "nonsense");
  EXPECT_EQ(end(48 * kj::HOURS), statusOf("api-server"));
  EXPECT_EQ("  problem", statusOf("api-client"));
}

}  // namespace
}  // namespace talos::machined
