// What is asked of containers: those of the node itself, which are its services here, or those of
// Kubernetes.
#include "apid/grpc/all-methods.h"
#include "apid/grpc/method-table.h"
#include "apid/grpc/request-fields.h"

namespace talos::edge {
namespace {

constexpr kj::StringPtr kKubernetes = "k8s.io"_kj;

bool isOfKubernetes(const RequestFields& request) {
  return request.bytes(1) == kKubernetes.asBytes();
}

// Logs are of services, too, whatever namespace a client has given to the kubelet.
bool isLogOfKubernetes(const RequestFields& request) {
  return isOfKubernetes(request) && request.bytes(2) != "kubelet"_kj.asBytes();
}

class ByNamespace final : public Method {
 public:
  using Test = bool (*)(const RequestFields& request);
  ByNamespace(Test ofKubernetes, const Row& system, const Row& kubernetes)
      : ofKubernetes(ofKubernetes), system(methodOf(system)), kubernetes(methodOf(kubernetes)) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto& method = ofKubernetes(RequestFields(request)) ? kubernetes : system;
    return method->ask(kj::mv(node), request, output);
  }

 private:
  Test ofKubernetes;
  kj::Own<const Method> system, kubernetes;
};

// A service gets SIGTERM; what is none is a container.
class RestartOfNode final : public Method {
 public:
  RestartOfNode(const Row& service, const Row& container)
      : service(methodOf(service)), container(methodOf(container)) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    return service->ask(node, request, output)
        .catch_([this, node, request, &output](kj::Exception&& e) mutable -> kj::Promise<void> {
          if (kindOf(e) != ErrorKind::kNotFound) return kj::mv(e);
          return container->ask(kj::mv(node), request, output);
        });
  }

 private:
  kj::Own<const Method> service, container;
};

}  // namespace

// clang-format off
constexpr Row kLogs[] = {
    {"", Answer::kItems, "logs.read", "2:id 4:follow 5:tailLines", "", "write.bytes"},
    {"", Answer::kItems, "containers.logs", "2:id 4:follow 5:tailLines", "", "write.bytes"}};
constexpr Row kStats[] = {
    {"", Answer::kMerged, "machine.stats", "",
     "2:stats{1:namespace 2:id 4:memoryUsage 5:cpuUsageNs 6:id 7:id}"},
    {"", Answer::kMerged, "containers.stats", "",
     "2:stats{1:namespace 2:id 4:memoryUsage 5:cpuUsageNs 6:podId 7:id}"}};
constexpr Row kContainers[] = {
    {"", Answer::kMerged, "containers.list", "0:kubernetes=0",
     "2:containers{1:namespace 2:id 3:image 4:pid 5:status 6:id 7:id}"},
    {"", Answer::kMerged, "containers.list", "0:kubernetes=1",
     "2:containers{1:namespace 2:id 3:image 4:pid 5:status 6:podId 7:id}"}};
constexpr Row kService = {"", Answer::kMerged, "services.kill", "2:id 0:signal=15"};
constexpr Row kContainer[] = {
    {"", Answer::kMerged, "containers.restart", "2:id 0:kubernetes=0"},
    {"", Answer::kMerged, "containers.restart", "2:id 0:kubernetes=1"}};
// clang-format on

namespace {

class Restart final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    if (isOfKubernetes(RequestFields(request)))
      return kubernetes->ask(kj::mv(node), request, output);
    return ofNode.ask(kj::mv(node), request, output);
  }

 private:
  RestartOfNode ofNode{kService, kContainer[0]};
  kj::Own<const Method> kubernetes = methodOf(kContainer[1]);
};

}  // namespace

void addByNamespace(kj::Vector<Entry>& all) {
  auto add = [&](kj::StringPtr path, Answer answer, const Row(&rows)[2],
                 ByNamespace::Test test = isOfKubernetes) {
    all.add(Entry{path, answer, kj::heap<ByNamespace>(test, rows[0], rows[1])});
  };
  add("/machine.MachineService/Logs", Answer::kItems, kLogs, isLogOfKubernetes);
  add("/machine.MachineService/Stats", Answer::kMerged, kStats);
  add("/machine.MachineService/Containers", Answer::kMerged, kContainers);
  all.add(Entry{"/machine.MachineService/Restart", Answer::kMerged, kj::heap<Restart>()});
}

}  // namespace talos::edge
