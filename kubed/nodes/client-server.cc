#include "kubed/nodes/client-server.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/within.h"
#include "common/net/ip.h"
#include "common/tls/authorities.h"
#include "common/tls/public-key.h"
#include "common/tls/tls-custom-verify.h"
#include "kubed/nodes/token-survey.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kPublished = "extension-apiserver-authentication"_kj,
                        kClientCas = "client-ca-file"_kj,
                        kAggregatorCas = "requestheader-client-ca-file"_kj,
                        kSystem = "kube-system"_kj;

kj::String textIn(capnp::Data::Reader pem) {
  return kj::str(pem.asChars());
}

void fill(capnp::List<capnp::Text>::Builder list, const kj::Vector<kj::String>& texts) {
  for (auto i : kj::indices(texts)) list.set(static_cast<unsigned>(i), texts[i]);
}

bool isRefusal(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnauthenticated || kind == ErrorKind::kPermissionDenied;
}

kj::Promise<Tried> attempt(DialDependencies deps, SharedKube::Make& make, Trial trial) {
  auto chain = co_await chainAt(deps, kj::str(trial.host), trial.port);
  Tried tried{.server = kj::strArray(chain, ""), .refused = {}};
  kube::KubeAccess access{.cluster = kj::str("cluster"),
                          .host = kj::str(trial.host),
                          .port = trial.port,
                          .authority = kj::mv(trial.authority),
                          .tlsName = kj::str(trial.host),
                          .certificate = kj::mv(trial.certificate),
                          .key = kj::mv(trial.key),
                          .token = {}};
  if (trial.kubelet) {
    access.authority = kj::str(access.authority, tried.server);
    auto names = pki::inspect(chain[0]).dnsNames;
    if (names.size() > 0) access.tlsName = kj::str(names[0]);
  }
  kj::Maybe<kj::Exception> failure;
  try {
    auto client = make(kj::mv(access));
    if (trial.kubelet) {
      co_await client->check("/healthz");
    } else {
      co_await client->getJson("/api/v1/namespaces/kube-system").ignoreResult();
    }
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    if (!isRefusal(*e)) kj::throwFatalException(kj::mv(*e));
    tried.refused = messageOf(*e);
  }
  co_return kj::mv(tried);
}

}  // namespace

kj::Promise<kj::Vector<kj::String>> chainAt(DialDependencies deps, kj::String host, uint16_t port) {
  kj::Vector<kj::String> shown;
  auto stream = co_await dialHost(deps, kj::mv(host), port);
  auto secured = co_await connectWithVerifier(
      kj::mv(stream), [&](kj::ArrayPtr<const kj::String> chain) -> kj::Maybe<kj::String> {
        for (auto& one : chain) shown.add(kj::str(one));
        return nullptr;
      });
  co_return kj::mv(shown);
}

ForgottenCa withoutCa(kj::StringPtr bundle, kj::StringPtr authority) {
  ForgottenCa result;
  kj::Vector<kj::String> left;
  auto key = pki::publicKeyOfCertificate(authority);
  for (auto& one : pki::certificatesIn(bundle)) {
    bool same = pki::publicKeyOfCertificate(one) == key;
    result.found = result.found || same;
    if (!same) left.add(kj::mv(one));
  }
  result.left = kj::strArray(left, "");
  return result;
}

kj::Promise<Tried> tryClient(DialDependencies deps, SharedKube::Make& make, Trial trial) {
  return within(deps.timer, kTrial, attempt(deps, make, kj::mv(trial)),
                kj::str("no answer within ", kTrial / kj::SECONDS, " s"), ErrorKind::kUnavailable);
}

ClientServer::ClientServer(DialDependencies dialing, SharedKube::Make& make, StoreClient& store,
                           KubernetesStoreAdapter& adapter,
                           kj::Function<kj::Promise<Message>()> read, const kj::Clock& clock)
    : dialing(dialing), make(make), adapter(adapter), clock(clock), surveys(kj::mv(read)) {
  members = store.watch<rpc::MemberSpec>([] {});
}

bool ClientServer::isNode(kj::StringPtr address) const {
  for (auto member : members) {
    for (auto known : member.getAddresses()) {
      if (known == address) return true;
    }
  }
  return false;
}

kj::Own<SharedKube> ClientServer::ownServer() {
  auto client = adapter.client();
  KJ_IF_MAYBE (error, client.tryGet<kj::String>()) fail(ErrorKind::kUnavailable, *error);
  return kj::mv(client.get<kj::Own<SharedKube>>());
}

kj::Promise<void> ClientServer::survey(SurveyContext context) {
  auto shared = co_await surveys.get();
  context.getResults().setSurvey(shared->value->getRoot<rpc::Survey>());
}

kj::Promise<void> ClientServer::tryClient(TryClientContext context) {
  auto asked = context.getParams();
  if (!members.synced())
    fail(ErrorKind::kUnavailable, "the nodes of the cluster are not known yet");
  if (!isNode(asked.getAddress())) {
    fail(ErrorKind::kPermissionDenied,
         kj::str("\"", asked.getAddress(), "\" is not an address of a node of this cluster"));
  }
  Trial trial{.host = kj::str(asked.getAddress()),
              .port = kKubeletPort,
              .kubelet = asked.getKubelet(),
              .authority = textIn(asked.getAuthority()),
              .certificate = textIn(asked.getCertificate()),
              .key = pki::Pem(textIn(asked.getKey()))};
  if (!trial.kubelet) {
    // All API servers of a cluster have the port of this one.
    auto own = ownServer();
    trial.port = KJ_REQUIRE_NONNULL(Endpoint::parse((**own).server())).port;
  }
  auto tried = co_await kubed::tryClient(dialing, make, kj::mv(trial));
  auto results = context.getResults();
  results.setServer(tried.server.asBytes());
  results.setRefused(tried.refused);
}

kj::Promise<void> ClientServer::forgetClientCa(ForgetClientCaContext context) {
  auto authority = textIn(context.getParams().getAuthority());
  auto list = context.getParams().getAggregator() ? kAggregatorCas : kClientCas;
  auto server = ownServer();
  auto maps = kube::coreResource("configmaps", "ConfigMap");
  auto published = co_await (**server).get(maps, kSystem, kPublished);
  auto rest = withoutCa(kube::textAt(published, {"data", list}), authority);
  context.getResults().setFound(rest.found);
  if (!rest.found) co_return;
  // With the version that was read: an API server may add its own CA meanwhile.
  kube::Json change = {
      {"metadata",
       {{"resourceVersion", kube::textAt(published, {"metadata", "resourceVersion"}).cStr()}}},
      {"data", {{list.cStr(), rest.left.cStr()}}}};
  co_await (**server).patch(kube::Patch::kMerge, maps, kSystem, kPublished, change, kOwner);
}

kj::Promise<void> ClientServer::rewriteSecrets(RewriteSecretsContext context) {
  auto names = context.getParams().getNames();
  if (names.size() > kMostRewritten) {
    fail(ErrorKind::kInvalidArgument, kj::str("more than ", kMostRewritten, " Secrets at once"));
  }
  auto server = ownServer();
  auto secrets = kube::coreResource("secrets", "Secret");
  for (auto name : names) {
    auto slash = name.findFirst('/').orDefault(0);
    if (slash == 0 || slash + 1 == name.size()) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("\"", name, "\" is not the namespace and name of a Secret"));
    }
    // A change of nothing: it is written if its key is not the one that writes, and only then.
    try {
      co_await (**server).patch(kube::Patch::kMerge, secrets, kj::heapString(name.slice(0, slash)),
                                name.slice(slash + 1), kube::Json::object(), kOwner);
    } catch (const kj::Exception& e) {
      if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::cp(e));
    }
  }
}

kj::Maybe<kj::String> unavailableApi(const kube::Json& apiService) {
  if (kube::textAt(apiService, {"spec", "service", "name"}).size() == 0) return nullptr;
  kj::StringPtr reason = "Unknown"_kj;
  for (auto condition : kube::itemsAt(apiService, {"status", "conditions"})) {
    if (kube::textAt(*condition, {"type"}) != "Available") continue;
    if (kube::textAt(*condition, {"status"}) == "True") return nullptr;
    reason = kube::textAt(*condition, {"reason"});
  }
  return kj::str(kube::textAt(apiService, {"metadata", "name"}), ": ", reason);
}

// Ends at its limit, because callers that arrive meanwhile wait for this reading.
kj::Promise<Aggregation> ClientServer::readAggregation() {
  return within(dialing.timer, kAggregation, aggregationNow(),
                kj::str("no answer of the API server within ", kAggregation / kj::SECONDS, " s"),
                ErrorKind::kUnavailable);
}

kj::Promise<Aggregation> ClientServer::aggregationNow() {
  auto server = ownServer();
  auto maps = kube::coreResource("configmaps", "ConfigMap");
  auto published = co_await (**server).get(maps, kSystem, kPublished);
  Aggregation found{.authorities = kj::str(kube::textAt(published, {"data", kAggregatorCas})),
                    .unavailable = {}};
  auto apis = co_await (**server).resource("apiregistration.k8s.io/v1", "APIService");
  co_await (**server).visit(apis, "", {}, [&](const kube::Json& api) {
    KJ_IF_MAYBE (line, unavailableApi(api)) found.unavailable.add(kj::mv(*line));
  });
  std::sort(found.unavailable.begin(), found.unavailable.end());
  co_return kj::mv(found);
}

kj::Promise<void> ClientServer::aggregation(AggregationContext context) {
  auto shared = co_await aggregations.get();
  auto& found = shared->value;
  auto results = context.getResults();
  results.setAuthorities(found.authorities.asBytes());
  fill(results.initUnavailable(static_cast<unsigned>(found.unavailable.size())), found.unavailable);
}

kj::Promise<void> ClientServer::tokensOfOtherKeys(TokensOfOtherKeysContext context) {
  auto server = ownServer();
  TokenSurvey tokens(context.getParams().getKey(), (clock.now() - kj::UNIX_EPOCH) / kj::SECONDS);
  auto pods = kube::coreResource("pods", "Pod");
  co_await (**server).visit(kube::coreResource("secrets", "Secret"), "",
                            {.fields = "type=kubernetes.io/service-account-token"},
                            [&](const kube::Json& secret) { tokens.addSecret(secret); });
  co_await (**server).visit(pods, kSystem, {.labels = "k8s-app=kube-apiserver"},
                            [&](const kube::Json& pod) { tokens.addApiServer(pod); });
  co_await (**server).visit(pods, "", {}, [&](const kube::Json& pod) { tokens.addPod(pod); });
  auto results = context.getResults();
  auto inSecrets = tokens.secrets(), inPods = tokens.pods();
  fill(results.initSecrets(static_cast<unsigned>(inSecrets.names.size())), inSecrets.names);
  results.setOtherSecrets(inSecrets.others);
  fill(results.initPods(static_cast<unsigned>(inPods.names.size())), inPods.names);
  results.setOtherPods(inPods.others);
  results.setUntil(tokens.until());
}

}  // namespace talos::kubed
