#include "common/wire/pod-networks.h"

#include <kj/debug.h>
#include <kj/refcount.h>

#include "common/base/error.h"

namespace talos {
namespace {

// Items without content cost a node nothing, and time here.
constexpr size_t kMostListed = 1u << 16;
void checkListed(size_t count) {
  if (count <= kMostListed) return;
  fail(ErrorKind::kResourceExhausted, kj::str("the node has sent a list of ", count,
                                              " items; at most ", kMostListed, " are read"));
}

// Parses "net:[4026531840]"; returns an empty text for another text.
kj::String numberOf(kj::StringPtr link) {
  constexpr auto kBefore = "net:["_kj;
  constexpr size_t kMostDigits = 20;
  if (!link.startsWith(kBefore) || !link.endsWith("]")) return {};
  auto digits = link.slice(kBefore.size(), link.size() - 1);
  if (digits.size() == 0 || digits.size() > kMostDigits) return {};
  for (char c : digits) {
    if (c < '0' || c > '9') return {};
  }
  return kj::heapString(digits);
}

struct NamespaceLink final : public kj::Refcounted {
  kj::String number, error;
};

// A node may hold this for longer than its call lasts.
class NamespaceLinks final : public rpc::FileSink::Server {
 public:
  explicit NamespaceLinks(kj::Own<NamespaceLink> found) : found(kj::mv(found)) {}

  kj::Promise<void> files(FilesContext context) override {
    auto files = context.getParams().getFiles();
    checkListed(files.size());
    for (auto file : files) {
      bool folder = file.getRelativeName() == ".";
      if (!folder && file.getRelativeName() != "net") continue;
      if (file.getError().size() > 0) found->error = kj::str(file.getError());
      if (!folder) found->number = numberOf(file.getLink());
    }
    return kj::READY_NOW;
  }

 private:
  kj::Own<NamespaceLink> found;
};

bool hasEnded(kj::StringPtr error) {
  return error == "No such file or directory" || error == "No such process";
}

// Returns the number of a process's network namespace; empty if the process has ended.
kj::Promise<kj::String> networkOf(rpc::Node::Client node, kj::String process) {
  auto folder = kj::str("/proc/", process, "/ns");
  auto found = kj::refcounted<NamespaceLink>();
  auto request = node.filesRequest().send().getFiles().listRequest();
  request.setRoot(folder);
  request.initTypes(1).set(0, rpc::FileType::SYMLINK);
  request.setSink(kj::heap<NamespaceLinks>(kj::addRef(*found)));
  bool there = co_await request.send().then([](auto&&) { return true; },
                                            [](kj::Exception&& e) {
                                              if (kindOf(e) != ErrorKind::kNotFound)
                                                kj::throwFatalException(kj::mv(e));
                                              return false;
                                            });
  if (!there) co_return kj::String();
  if (found->error.size() > 0 && !hasEnded(found->error)) {
    fail(ErrorKind::kUnavailable, kj::str(folder, ": ", found->error));
  }
  co_return kj::mv(found->number);
}

}  // namespace

kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node,
                                                capnp::List<rpc::Container>::Reader listed) {
  checkListed(listed.size());
  kj::Vector<PodNetwork> pods;
  for (auto container : listed) {
    auto process = static_cast<int32_t>(container.getPid());
    if (process <= 0 || container.getId() != container.getPodId()) continue;
    pods.add(PodNetwork{.pod = kj::str(container.getId()), .name = {}, .process = process});
  }
  if (pods.empty()) co_return kj::mv(pods);
  auto own = co_await networkOf(node, kj::str("self"));
  if (own.size() == 0) {
    fail(ErrorKind::kUnavailable, "the node does not say which network namespace it is in");
  }
  for (size_t first = 0; first < pods.size(); first += kPodsAtOnce) {
    kj::Vector<kj::Promise<void>> lookups;
    for (auto& pod : pods.asPtr().slice(first, kj::min(first + kPodsAtOnce, pods.size()))) {
      lookups.add(networkOf(node, kj::str(pod.process)).then([&pod](kj::String name) {
        pod.name = kj::mv(name);
      }));
    }
    co_await kj::joinPromises(lookups.releaseAsArray());
  }
  kj::Vector<PodNetwork> networks;
  for (auto& pod : pods) {
    if (pod.name.size() > 0 && pod.name != own) networks.add(kj::mv(pod));
  }
  co_return kj::mv(networks);
}

kj::Promise<kj::Vector<PodNetwork>> podNetworks(rpc::Node::Client node) {
  auto request = node.containersRequest().send().getContainers().listRequest();
  request.setKubernetes(true);
  auto response = co_await request.send();
  co_return co_await podNetworks(kj::mv(node), response.getContainers());
}

kj::Promise<PodSockets> podSockets(rpc::Node::Client node, int32_t process) {
  auto request = node.machineRequest().send().getMachine().netstatRequest();
  request.setProcess(process);
  return request.send().then([](auto&& response) { return PodSockets(kj::mv(response)); },
                             [](kj::Exception&& e) {
                               if (kindOf(e) != ErrorKind::kNotFound)
                                 kj::throwFatalException(kj::mv(e));
                               return PodSockets(nullptr);
                             });
}

}  // namespace talos
