// link: machined-services-containers common-grpc nghttp2
// Answers of containerd and of its CRI: any bytes as the message of each method that the lists of
// containers, images and pods are made of. A registry, a pod or an attacker who controls containerd
// chooses these bytes.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/grpc/test-grpc-server.h"
#include "machined/services/containers/container-images.h"
#include "machined/services/containers/container-list.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using grpc::ModelServer;

constexpr const char* kMethods[] = {
    "/containerd.services.containers.v1.Containers/List",
    "/containerd.services.content.v1.Content/Info",
    "/containerd.services.images.v1.Images/List",
    "/containerd.services.snapshots.v1.Snapshots/View",
    "/containerd.services.tasks.v1.Tasks/List",
    "/runtime.v1.ImageService/ImageStatus",
    "/runtime.v1.ImageService/ListImages",
    "/runtime.v1.ImageService/PullImage",
    "/runtime.v1.RuntimeService/ContainerStatus",
    "/runtime.v1.RuntimeService/ListContainerStats",
    "/runtime.v1.RuntimeService/ListContainers",
    "/runtime.v1.RuntimeService/ListPodSandbox",
    "/runtime.v1.RuntimeService/PodSandboxStatus",
};

// The input is a list of messages, each with its length in one octet before it (255: the rest). The
// calls get them one after the other, and then the first ones again.
std::vector<std::string> messagesIn(kj::ArrayPtr<const char> input) {
  std::vector<std::string> messages;
  while (input.size() > 0) {
    size_t length = static_cast<uint8_t>(input[0]);
    input = input.slice(1, input.size());
    if (length == 255 || length > input.size()) length = input.size();
    messages.emplace_back(input.begin(), length);
    input = input.slice(length, input.size());
  }
  if (messages.empty()) messages.emplace_back();
  return messages;
}

// Returns true if the call succeeded.
template <typename T>
bool finish(kj::WaitScope& scope, kj::Promise<T> call) {
  bool done = false, good = false;
  auto settled = call.ignoreResult()
                     .then([&] { good = true; }, [](kj::Exception&&) {})
                     .then([&] { done = true; })
                     .eagerlyEvaluate(nullptr);
  KJ_ASSERT(scope.poll(1'000'000) < 1'000'000, "the node does not come to rest");
  KJ_ASSERT(done, "a call does not end with its answers");
  return good;
}

// Returns how many calls succeeded.
unsigned converse(kj::ArrayPtr<const kj::byte> input) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  kj::TimerImpl timer(kj::origin<kj::TimePoint>());
  auto messages = messagesIn(input.asChars());
  size_t next = 0;
  ModelServer server;
  for (auto path : kMethods) {
    server.methods[path] = [&](ModelServer::Exchange& x) {
      if (!x.ended) return;
      x.send(messages[next++ % messages.size()]);
      x.finish();
    };
  }
  machined::Containerd containerd(
      timer, [&]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> { return server.dial(); });
  unsigned good = 0;
  good += finish(scope, machined::podContainers(containerd));
  good += finish(scope, machined::podUse(containerd));
  good += finish(scope, machined::systemContainers(containerd));
  good += finish(scope, machined::podLogFile(containerd, kj::str("kube-system/a:b")));
  good += finish(scope, machined::images(containerd));
  good += finish(scope, machined::unpackedImage(containerd, kj::str("example.com/a:v1")));
  good += finish(scope, machined::pullImage(containerd, kj::str("example.com/a:v1")));
  good += finish(scope, machined::viewImage(containerd, kj::str("view"), kj::str("snapshot")));
  return good;
}

}  // namespace

FUZZ_TARGET(containerd) {
  static bool right = [] {
    KJ_ASSERT(converse(nullptr) >= 4, "empty messages are right answers");
    return true;
  }();
  (void)right;
  converse(kj::arrayPtr(data, size));
  return 0;
}
