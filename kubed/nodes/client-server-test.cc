#include "kubed/nodes/client-server.h"

#include <gtest/gtest.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "kubed/nodes/test-control-plane.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kPublishedAt =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"_kj;

struct ClientServerTest : public TestControlPlane {
  ~ClientServerTest() noexcept override {}
  pki::CertificateAndKey old = pki::makeAuthority({.organization = "kubernetes"}),
                         next = pki::makeAuthority({.organization = "kubernetes"});
  SharedKube::Make make = [this](kube::KubeAccess) {
    return kj::heap<kube::KubeClient>(
        timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access());
  };

  rpc::Kubernetes::Client serve() {
    auto deps = begin();
    DialDependencies dialing{*io.lowLevelProvider, io.unixEventPort, timer};
    rpc::Kubernetes::Client server = kj::heap<ClientServer>(
        dialing, make, store, deps.adapter,
        []() -> kj::Promise<ClientServer::Message> { return KJ_EXCEPTION(FAILED, "no survey"); });
    EXPECT_TRUE(eventually([&] { return deps.adapter.secretsVersion() != 0; }));
    return server;
  }
  bool forget(rpc::Kubernetes::Client& server, kj::StringPtr authority, bool aggregator = false) {
    auto request = server.forgetClientCaRequest();
    request.setAuthority(authority.asBytes());
    request.setAggregator(aggregator);
    return request.send().wait(io.waitScope).getFound();
  }
  kj::Maybe<ErrorKind> trialError(rpc::Kubernetes::Client& server, kj::StringPtr address) {
    auto request = server.tryClientRequest();
    request.setAddress(address);
    request.setKubelet(true);
    kj::Maybe<ErrorKind> kind;
    try {
      request.send().wait(io.waitScope);
    } catch (const kj::Exception& e) {
      kind = kindOf(e);
    }
    return kind;
  }
};

}  // namespace

// Catches: a CA that stays published for aggregated API servers, or others that are removed too.
TEST_F(ClientServerTest, RemovedCaIsNoLongerPublished) {
  auto server = serve();
  model.put(kPublishedAt, {{"metadata", {{"name", "extension-apiserver-authentication"}}},
                           {"data",
                            {{"client-ca-file", kj::str(old.certificate, next.certificate).cStr()},
                             {"requestheader-client-ca-file", "other"}}}});
  EXPECT_TRUE(forget(server, old.certificate));
  auto& patch = model.asked.back();
  EXPECT_EQ(patch.method, "PATCH");
  EXPECT_EQ(patch.body["data"]["client-ca-file"], next.certificate.cStr());
  EXPECT_EQ(patch.body["data"].size(), 1u);
  EXPECT_FALSE(patch.body["metadata"]["resourceVersion"].empty());
  auto count = model.asked.size();
  EXPECT_FALSE(forget(server, old.certificate));
  EXPECT_EQ(model.asked.size(), count + 1) << "nothing is written";
}

// Catches: a CA of the aggregation layer that is removed from the wrong list.
TEST_F(ClientServerTest, OneCaOfTheAggregationLayerIsForgotten) {
  auto server = serve();
  auto both = kj::str(old.certificate, next.certificate);
  model.put(
      kPublishedAt,
      {{"metadata", {{"name", "extension-apiserver-authentication"}}},
       {"data", {{"client-ca-file", both.cStr()}, {"requestheader-client-ca-file", both.cStr()}}}});
  EXPECT_TRUE(forget(server, old.certificate, true));
  auto& patch = model.asked.back();
  EXPECT_EQ(patch.body["data"]["requestheader-client-ca-file"], next.certificate.cStr());
  EXPECT_EQ(patch.body["data"].size(), 1u);
}

// Catches: an aggregated API that an API server serves itself, or that is available, in the list.
TEST_F(ClientServerTest, OnlyUnavailableAggregatedApisAreListed) {
  auto server = serve();
  model.addKind({.group = kj::str("apiregistration.k8s.io"),
                 .version = kj::str("v1"),
                 .plural = kj::str("apiservices"),
                 .kind = kj::str("APIService"),
                 .namespaced = false});
  model.put(kPublishedAt, {{"metadata", {{"name", "extension-apiserver-authentication"}}},
                           {"data", {{"requestheader-client-ca-file", "PEM"}}}});
  auto put = [&](kj::StringPtr name, bool aggregated, const char* status) {
    kube::Json api = {{"metadata", {{"name", name.cStr()}}}};
    if (aggregated) api["spec"]["service"]["name"] = "x";
    api["status"]["conditions"] =
        kube::Json::array({{{"type", "Available"}, {"status", status}, {"reason", "Why"}}});
    model.put(kj::str("/apis/apiregistration.k8s.io/v1/apiservices/", name), api);
  };
  put("v1.local", false, "False");
  put("v1.fine", true, "True");
  put("v1.z", true, "False");
  put("v1.b", true, "Unknown");
  auto got = server.aggregationRequest().send().wait(io.waitScope);
  EXPECT_EQ(kj::str(got.getAuthorities().asChars()), "PEM");
  EXPECT_EQ(kj::strArray(got.getUnavailable(), " "), "v1.b: Why v1.z: Why");
  EXPECT_EQ(
      unavailableApi({{"metadata", {{"name", "new"}}}, {"spec", {{"service", {{"name", "x"}}}}}})
          .orDefault(kj::str("none")),
      "new: Unknown");
}

// Catches: a client whose calls each open their own connections and read the whole cluster.
TEST_F(ClientServerTest, ThoseWhoAskForTheAggregationLayerShareOneReading) {
  auto server = serve();
  model.addKind({.group = kj::str("apiregistration.k8s.io"),
                 .version = kj::str("v1"),
                 .plural = kj::str("apiservices"),
                 .kind = kj::str("APIService"),
                 .namespaced = false});
  model.put(kPublishedAt, {{"metadata", {{"name", "extension-apiserver-authentication"}}},
                           {"data", {{"requestheader-client-ca-file", "PEM"}}}});
  auto before = model.asked.size();
  server.aggregationRequest().send().wait(io.waitScope);
  auto ofOne = model.asked.size() - before;
  kj::Vector<kj::Promise<void>> calls;
  for (unsigned i = 0; i < 200; ++i) {
    calls.add(server.aggregationRequest().send().then(
        [](auto&& got) { EXPECT_EQ(kj::str(got.getAuthorities().asChars()), "PEM"); }));
  }
  kj::joinPromises(calls.releaseAsArray()).wait(io.waitScope);
  EXPECT_GT(ofOne, 0u);
  EXPECT_LE(model.asked.size(), before + 3 * ofOne);
}

// Catches: API servers that are not read first; Secrets of other types that are read.
TEST_F(ClientServerTest, TokensOfOtherKeys) {
  auto server = serve();
  kube::Json pod = {
      {"metadata",
       {{"name", "p"}, {"namespace", "default"}, {"creationTimestamp", "2025-11-24T15:59:00Z"}}},
      {"spec",
       {{"volumes",
         kube::Json::array(
             {{{"projected",
                {{"sources", kube::Json::array({{{"serviceAccountToken",
                                                  {{"expirationSeconds", 86400}}}}})}}}}})}}}};
  model.put("/api/v1/namespaces/default/pods/p", pod);
  auto running = kj::str(dateText(kj::systemPreciseCalendarClock().now()));
  model.put(
      "/api/v1/namespaces/kube-system/pods/kube-apiserver-a",
      {{"metadata",
        {{"name", "kube-apiserver-a"},
         {"namespace", "kube-system"},
         {"labels", {{"k8s-app", "kube-apiserver"}}}}},
       {"status",
        {{"containerStatuses",
          kube::Json::array({{{"state", {{"running", {{"startedAt", running.cStr()}}}}}}})}}}});
  model.put("/api/v1/namespaces/default/secrets/s",
            {{"type", "kubernetes.io/service-account-token"},
             {"metadata", {{"name", "s"}, {"namespace", "default"}}},
             {"data", {{"token", "eA=="}}}});
  auto request = server.tokensOfOtherKeysRequest();
  request.setKey("new");
  auto got = request.send().wait(io.waitScope);
  EXPECT_EQ(kj::strArray(got.getPods(), " "), "default/p");
  EXPECT_EQ(kj::strArray(got.getSecrets(), " "), "default/s");
  EXPECT_GT(got.getUntil(), 0);
  bool filtered = false;
  for (auto& asked : model.asked) {
    filtered = filtered || (asked.path.find("/secrets?") != std::string::npos &&
                            asked.path.find("service-account-token") != std::string::npos);
  }
  EXPECT_TRUE(filtered);
}

// Catches: a Secret that is changed instead of written again unchanged; a deleted Secret that ends
// the call before the others; a name that leads to another object.
TEST_F(ClientServerTest, SecretsAreWrittenAgainAsTheyAre) {
  auto server = serve();
  auto error = [&](std::initializer_list<kj::StringPtr> names) {
    auto request = server.rewriteSecretsRequest();
    auto list = request.initNames(static_cast<unsigned>(names.size()));
    unsigned i = 0;
    for (auto name : names) list.set(i++, name);
    kj::Maybe<ErrorKind> kind;
    try {
      request.send().wait(io.waitScope);
    } catch (const kj::Exception& e) {
      kind = kindOf(e);
    }
    return kind;
  };
  constexpr kj::StringPtr kKept = "/api/v1/namespaces/default/secrets/kept"_kj;
  model.put(kKept, {{"metadata", {{"name", "kept"}}}, {"data", {{"v", "b2xk"}}}});
  EXPECT_TRUE(error({"default/gone", "default/kept"}) == nullptr);
  auto& patch = model.asked.back();
  EXPECT_EQ(patch.method, "PATCH");
  EXPECT_NE(patch.path.find("/namespaces/default/secrets/kept"), std::string::npos) << patch.path;
  EXPECT_EQ(patch.body, kube::Json::object());
  for (auto wrong : {"kept"_kj, "/kept"_kj, "default/"_kj}) {
    EXPECT_TRUE(error({wrong}).orDefault(ErrorKind::kUnavailable) == ErrorKind::kInvalidArgument)
        << wrong.cStr();
  }
}

// Catches: a certificate with the same subject that is taken for it.
TEST(ClientCas, HaveOneSubjectAndKeysOfTheirOwn) {
  auto one = pki::makeAuthority({.organization = "kubernetes"});
  auto other = pki::makeAuthority({.organization = "kubernetes"});
  auto bundle = kj::str(one.certificate, other.certificate, one.certificate);
  auto rest = withoutCa(bundle, one.certificate);
  EXPECT_TRUE(rest.found);
  EXPECT_EQ(rest.left, other.certificate);
  EXPECT_FALSE(withoutCa(rest.left, one.certificate).found);
  // A run that continues may know the old CA as the new one signed it.
  auto crossed = pki::crossSign(other.certificate, other.key, one.certificate);
  EXPECT_EQ(withoutCa(bundle, crossed).left, other.certificate);
}

// Catches: a node that calls any address on behalf of any caller.
TEST_F(ClientServerTest, CallsNodesOfTheClusterAlone) {
  machined.kind<rpc::MemberSpec>().set<rpc::MemberSpec>(
      "w-1", "kubed", [](auto spec) { spec.initAddresses(1).set(0, "127.0.0.1"); });
  auto server = serve();
  kj::Maybe<ErrorKind> kind;
  EXPECT_TRUE(eventually([&] {
    kind = trialError(server, "192.0.2.1");
    return kind.orDefault(ErrorKind::kUnavailable) != ErrorKind::kUnavailable;
  }));
  EXPECT_TRUE(kind.orDefault(ErrorKind::kUnavailable) == ErrorKind::kPermissionDenied);
}

}  // namespace talos::kubed
