#include "talosctl/cluster/nodes/node-ports.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::cluster {
namespace {

std::string keyOf(const kube::Json& service) {
  return kj::str(kube::textAt(service, {"metadata", "namespace"}), "/", kube::nameOf(service))
      .cStr();
}

}  // namespace

std::set<uint16_t> nodePortsOf(const kube::Json& service) {
  std::set<uint16_t> ports;
  for (auto* port : kube::itemsAt(service, {"spec", "ports"})) {
    auto protocol = kube::textAt(*port, {"protocol"});
    auto number = kube::numberAt(*port, {"nodePort"});
    if (protocol.size() > 0 && protocol != "TCP") continue;
    if (number > 0 && number <= kj::maxValueForBits<16>()) {
      ports.insert(static_cast<uint16_t>(number));
    }
  }
  return ports;
}

kj::Promise<void> NodePorts::follow(kube::KubeClient& kubernetes) {
  auto kind = kube::coreResource("services", "Service");
  auto listed = co_await kubernetes.list(kind);
  services.clear();
  for (auto& service : listed.items) services[keyOf(service)] = nodePortsOf(service);
  reconcile();
  auto watch = co_await kubernetes.watch(kind, "", {}, listed.version);
  for (;;) {
    auto next = co_await watch->next();
    KJ_IF_MAYBE (event, next) {
      if (event->type == kube::WatchEvent::Type::kBookmark) continue;
      if (event->type == kube::WatchEvent::Type::kDeleted) {
        services.erase(keyOf(event->object));
      } else {
        services[keyOf(event->object)] = nodePortsOf(event->object);
      }
      reconcile();
    } else {
      co_return;
    }
  }
}

// A promise must not be dropped while it runs, so failed ports are removed later.
kj::Promise<void> NodePorts::keepOpen(Place place) {
  return open(place.first, place.second).catch_([this, place](kj::Exception&& e) {
    log::warn("a NodePort is not forwarded any more; retrying when a Service changes",
              {{"port", place.second}, {"error", messageOf(e)}});
    failed.insert(place);
  });
}

void NodePorts::reconcile() {
  for (auto& place : failed) forwarded.erase(place);
  failed.clear();
  std::set<uint16_t> desired;
  for (auto& [name, ports] : services) desired.insert(ports.begin(), ports.end());
  std::erase_if(forwarded, [&](auto& each) { return desired.count(each.first.second) == 0; });
  for (auto port : desired) {
    for (auto node : kj::range(size_t(0), nodes)) {
      if (forwarded.count({node, port}) > 0) continue;
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                     Place place{node, port};
                     forwarded.emplace(place, keepOpen(place).eagerlyEvaluate(nullptr));
                   })) {
        log::warn("the host cannot reach this NodePort at a loopback address",
                  {{"port", port}, {"error", messageOf(*e)}});
      }
    }
  }
}

}  // namespace talos::cluster
