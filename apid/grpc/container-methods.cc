// Methods for containers and images: of the node itself, or of Kubernetes.
#include <kj/map.h>

#include "apid/grpc/method-table.h"
#include "common/grpc-messages/message-shape.h"
#include "common/grpc-messages/request-fields.h"
#include "common/wire/pod-networks.h"
#include "common/wire/system-images.h"

namespace talos::grpcapi {
namespace {

constexpr kj::StringPtr kKubernetes = "k8s.io"_kj;

bool isOfKubernetes(const RequestFields& request) {
  return request.bytes(1) == kKubernetes.asBytes();
}

// The kubelet's log is a service's log, whatever namespace a client sends with it.
bool isLogOfKubernetes(const RequestFields& request) {
  return isOfKubernetes(request) && request.bytes(2) != "kubelet"_kj.asBytes();
}

class ByNamespace final : public Method {
 public:
  using Test = bool (*)(const RequestFields& request);
  ByNamespace(Test ofKubernetes, kj::Own<const Method> system, kj::Own<const Method> kubernetes)
      : ofKubernetes(ofKubernetes), system(kj::mv(system)), kubernetes(kj::mv(kubernetes)) {}

  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    auto& method = ofKubernetes(RequestFields(request)) ? kubernetes : system;
    return method->ask(kj::mv(node), request, output);
  }

 private:
  Test ofKubernetes;
  kj::Own<const Method> system, kubernetes;
};

// Sends SIGTERM to a service; an id that is not a service's is a container's.
class RestartOfNode final : public Method {
 public:
  RestartOfNode(const MethodRow& service, const MethodRow& container)
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
constexpr MethodRow kLogs[] = {
    {.path = "", .answer = Answer::kItems, .call = "logs.read",
     .in = "2:id 4:follow 5:tailLines", .items = "write.bytes"},
    {.path = "", .answer = Answer::kItems, .call = "containers.logs",
     .in = "2:id 4:follow 5:tailLines", .items = "write.bytes"}};
constexpr MethodRow kStats[] = {
    {.path = "", .answer = Answer::kMerged, .call = "machine.stats",
     .out = "2:stats{1:namespace 2:id 4:memoryUsage 5:cpuUsageNs 6:id 7:id}"},
    {.path = "", .answer = Answer::kMerged, .call = "containers.stats",
     .out = "2:stats{1:namespace 2:id 4:memoryUsage 5:cpuUsageNs 6:podId 7:id}"}};
constexpr MethodRow kContainers = {
    .path = "", .answer = Answer::kMerged, .call = "containers.list", .in = "0:kubernetes=0",
    .out = "2:containers{1:namespace 2:id 3:image 4:pid 5:status 6:id 7:id}"};
constexpr MethodRow kService = {
    .path = "", .answer = Answer::kMerged, .call = "services.kill", .in = "2:id 0:signal=15"};
constexpr MethodRow kContainer[] = {
    {.path = "", .answer = Answer::kMerged, .call = "containers.restart", .in = "2:id 0:kubernetes=0"},
    {.path = "", .answer = Answer::kMerged, .call = "containers.restart", .in = "2:id 0:kubernetes=1"}};
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

// Lists pods. A pod with a separate network has the name by which clients request its sockets from
// Netstat.
class PodContainers final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes, Output& output) const override {
    auto request = node.containersRequest().send().getContainers().listRequest();
    request.setKubernetes(true);
    auto response = co_await request.send();
    auto charge = output.charge(response.totalSize());
    auto containers = itemsOf(response.getContainers());
    // The list matters more than these names: if they cannot be found, pods lack them.
    auto networks = co_await podNetworks(kj::mv(node), containers).catch_([](kj::Exception&&) {
      return kj::Vector<PodNetwork>();
    });
    kj::HashMap<int32_t, kj::StringPtr> names;
    for (auto& network : networks) names.upsert(network.process, network.name);
    WireWriter out;
    for (auto container : containers) {
      WireWriter record;
      shape.encode(capnp::DynamicStruct::Reader(container), record);
      if (container.getId() == container.getPodId()) {
        KJ_IF_MAYBE (name, names.find(static_cast<int32_t>(container.getPid()))) {
          record.text(8, *name);
        }
      }
      out.bytes(2, record.written());
    }
    co_await output.send(out.finish());
  }

 private:
  Shape shape{"1:namespace 2:id 3:image 4:pid 5:status 6:podId 7:id",
              capnp::Schema::from<rpc::Container>()};
};

// One store has all images. The namespace "system" has the images that the node itself runs: its
// kubelet's, under each of the image's names. The namespace "inmem" of later releases is empty,
// because a node runs nothing from images before it has this store.
class ImageList final : public Method {
 public:
  kj::Promise<void> ask(rpc::Node::Client node, Bytes request, Output& output) const override {
    constexpr uint64_t kSystem = 1, kPods = 2, kInMemory = 3;
    auto space = RequestFields(request).number(1);
    if (space != kSystem && space != kPods && space != kInMemory) {
      fail(ErrorKind::kInvalidArgument, "invalid namespace; use --namespace system, cri or inmem");
    }
    auto response = co_await node.containersRequest().send().getContainers().imagesRequest().send();
    if (space == kInMemory) co_return;
    auto charge = output.charge(response.totalSize());
    auto images = itemsOf(response.getImages());
    kj::Maybe<kj::String> digest;
    if (space == kSystem) digest = co_await systemImageDigest(kj::mv(node), images);
    for (auto image : images) {
      if (space == kSystem &&
          digest.map([&](auto& d) { return d != image.getDigest(); }).orDefault(true))
        continue;
      co_await output.send(shape.encode(capnp::DynamicStruct::Reader(image)));
    }
  }

 private:
  Shape shape{"2:name 3:digest 4:size 5:created~time", capnp::Schema::from<rpc::ContainerImage>()};
};

}  // namespace

void addByNamespace(kj::Vector<Entry>& all) {
  auto add = [&](kj::StringPtr path, Answer answer, kj::Own<const Method> system,
                 kj::Own<const Method> kubernetes, ByNamespace::Test test = isOfKubernetes) {
    all.add(Entry{path, answer, kj::heap<ByNamespace>(test, kj::mv(system), kj::mv(kubernetes))});
  };
  add("/machine.MachineService/Logs", Answer::kItems, methodOf(kLogs[0]), methodOf(kLogs[1]),
      isLogOfKubernetes);
  add("/machine.MachineService/Stats", Answer::kMerged, methodOf(kStats[0]), methodOf(kStats[1]));
  add("/machine.MachineService/Containers", Answer::kMerged, methodOf(kContainers),
      kj::heap<PodContainers>());
  all.add(Entry{"/machine.MachineService/Restart", Answer::kMerged, kj::heap<Restart>()});
  all.add(Entry{"/machine.MachineService/ImageList", Answer::kItems, kj::heap<ImageList>()});
}

}  // namespace talos::grpcapi
