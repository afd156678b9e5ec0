// Reads the objects for a survey (survey.h).
#include "common/base/error.h"
#include "common/base/within.h"
#include "common/kube/survey.h"

namespace talos::kube {
namespace {

constexpr auto kPartDeadline = 10 * kj::SECONDS;

struct ServiceName {
  kj::StringPtr nameSpace, name;
};
constexpr ServiceName kServices[] = {{"default"_kj, "kubernetes"_kj},
                                     {"kube-system"_kj, "kube-dns"_kj}};

class SurveyReader {
 public:
  SurveyReader(kj::Timer& timer, KubeClient& client)
      : timer(timer), client(client), end(timer.now() + kSurveyDeadline) {}

  kj::Promise<kj::Own<capnp::MallocMessageBuilder>> read() {
    co_await readVersion();
    co_await part("nodes", visit(coreResource("nodes", "Node", false), "", {},
                                 [this](auto& node) { found.addNode(node); }));
    for (auto& kind : {"DaemonSet"_kj, "Deployment"_kj, "ReplicaSet"_kj}) {
      co_await part(plurals(kind),
                    visit(appsResource(plurals(kind), kind), "kube-system", {},
                          [this, kind](auto& one) { found.addWorkload(kind, one); }));
    }
    co_await part("PodDisruptionBudgets", readBudgets());
    co_await part("pods", visit(coreResource("pods", "Pod"), "", {},
                                [this](auto& pod) { found.addPod(pod); }));
    for (auto& service : kServices) {
      co_await part("services", readService(service));
      co_await part("endpoints", readEndpoints(service));
    }
    co_await part("events", visit(coreResource("events", "Event"), "", {.fields = "type=Warning"},
                                  [this](auto& event) { found.addEvent(event); }));
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    auto survey = message->initRoot<rpc::Survey>();
    survey.setServer(client.server());
    found.fill(survey);
    co_return kj::mv(message);
  }

 private:
  kj::Timer& timer;
  KubeClient& client;
  kj::TimePoint end;
  SurveyObjects found;

  static kj::StringPtr plurals(kj::StringPtr kind) {
    return kind == "DaemonSet"    ? "daemonsets"_kj
           : kind == "Deployment" ? "deployments"_kj
                                  : "replicasets"_kj;
  }

  // Reads the version, which an API server returns even without etcd; if it does not, it cannot be
  // reached.
  kj::Promise<void> readVersion() {
    kj::Maybe<kj::Exception> failure;
    try {
      found.addVersion(co_await limited("the version", client.getJson("/version")));
    } catch (...) {
      failure = kj::getCaughtExceptionAsKj();
    }
    KJ_IF_MAYBE (e, failure) {
      auto kind = kindOf(*e);
      if (kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded) {
        fail(ErrorKind::kUnavailable, messageOf(*e));
      }
      found.addProblem(messageOf(*e));
    }
  }

  kj::Promise<void> visit(Resource resource, kj::StringPtr nameSpace, ListOptions options,
                          kj::Function<void(const Json&)> take) {
    return client.visit(resource, nameSpace, options, kj::mv(take)).ignoreResult();
  }

  // Reads the budgets, before 1.21 under their older name.
  kj::Promise<void> readBudgets() {
    auto kind = co_await budgetsKind(client);
    auto version = kj::str(kind.version);
    co_await visit(kj::mv(kind), "", {}, [&](auto& budget) { found.addBudget(budget, version); });
  }

  kj::Promise<void> readService(const ServiceName& service) {
    found.addService(
        co_await client.get(coreResource("services", "Service"), service.nameSpace, service.name));
  }

  kj::Promise<void> readEndpoints(const ServiceName& service) {
    kj::Maybe<Resource> slices;
    try {
      slices = co_await client.resource("discovery.k8s.io/v1", "EndpointSlice");
    } catch (...) {
      auto e = kj::getCaughtExceptionAsKj();
      if (kindOf(e) != ErrorKind::kNotFound) kj::throwFatalException(kj::mv(e));
    }
    KJ_IF_MAYBE (kind, slices) {
      auto labels = kj::str("kubernetes.io/service-name=", service.name);
      co_await client
          .visit(*kind, service.nameSpace, {.labels = labels},
                 [this](auto& slice) { found.addEndpointSlice(slice); })
          .ignoreResult();
    } else {
      found.addEndpoints(co_await client.get(coreResource("endpoints", "Endpoints"),
                                             service.nameSpace, service.name));
    }
  }

  // Reads a part that a cluster may lack: the reader of the survey decides what its absence means.
  kj::Promise<void> part(kj::StringPtr what, kj::Promise<void> reading) {
    return limited(what, kj::mv(reading)).catch_([this](kj::Exception&& e) {
      if (kindOf(e) != ErrorKind::kNotFound) found.addProblem(messageOf(e));
    });
  }

  template <typename T>
  kj::Promise<T> limited(kj::StringPtr what, kj::Promise<T> reading) {
    auto limit = kj::max(kj::min(kPartDeadline, end - timer.now()), 0 * kj::SECONDS);
    return within(timer, limit, kj::mv(reading),
                  kj::str(client.name(), ": cannot read ", what, " in time"));
  }
};

}  // namespace

kj::Promise<kj::Own<capnp::MallocMessageBuilder>> readSurvey(kj::Timer& timer, KubeClient& client) {
  auto reader = kj::heap<SurveyReader>(timer, client);
  auto& one = *reader;
  return one.read().attach(kj::mv(reader));
}

}  // namespace talos::kube
