// Pods of a model node, as its servers of containers, files and sockets return them; for tests.
#pragma once

#include <kj/async.h>

#include <vector>

#include "common/base/error.h"
#include "rpc/node.capnp.h"

namespace talos {

struct ModelPod {
  kj::StringPtr id;       // <namespace>/<pod>
  int32_t process = 0;    // 0 if the pod does not run
  kj::StringPtr network;  // a number; empty if the process has ended meanwhile
  bool endsSoon = false;  // ends after its network was looked up
};

struct ModelPods {
  kj::StringPtr own = "4026531840";  // the node's network
  std::vector<ModelPod> pods;
  kj::StringPtr error;                    // error of reading links
  bool refused = false;                   // the client has too many reads open
  unsigned lookups = 0, mostLookups = 0;  // at the same time

  using ListContext = capnp::CallContext<rpc::Files::ListParams, rpc::Files::ListResults>;

  // Lists each pod, and a container in it.
  void list(capnp::List<rpc::Container>::Builder out, unsigned first = 0) const {
    for (auto& pod : pods) {
      for (bool member : {false, true}) {
        auto container = out[first++];
        container.setNamespace("k8s.io"), container.setPodId(pod.id);
        container.setId(member ? kj::str(pod.id, ":main") : kj::str(pod.id));
        container.setPid(pod.process == 0 ? 0 : pod.process + (member ? 1000 : 0));
      }
    }
  }
  // Answers with the links of /proc/<process>/ns.
  kj::Promise<void> links(ListContext context) {
    mostLookups = kj::max(mostLookups, ++lookups);
    KJ_DEFER(--lookups);
    co_await kj::evalLast([]() {});
    if (refused) fail(ErrorKind::kResourceExhausted, "this client has 16 reads open");
    auto root = kj::str(context.getParams().getRoot());
    auto network = root == "/proc/self/ns" ? own : ""_kj;
    for (auto& pod : pods) {
      if (root == kj::str("/proc/", pod.process, "/ns")) network = pod.network;
    }
    if (network.size() == 0) fail(ErrorKind::kNotFound, kj::str(root, ": No such file"));
    auto request = context.getParams().getSink().filesRequest();
    auto files = request.initFiles(3);
    files[0].setRelativeName("mnt"), files[0].setLink("mnt:[4026531841]");
    files[1].setRelativeName("net"), files[1].setLink(kj::str("net:[", network, "]"));
    files[2].setRelativeName("pid"), files[2].setLink("pid:[4026531836]");
    if (error.size() > 0) files[1].setError(error), files[1].setLink("");
    co_await request.send();
  }
  // Returns a connected socket, from port 1000 + process; returns false for another process.
  bool sockets(int32_t process, rpc::Machine::NetstatResults::Builder out) const {
    for (auto& pod : pods) {
      if (pod.process != process) continue;
      if (pod.endsSoon) fail(ErrorKind::kNotFound, kj::str("there is no process ", process));
      auto socket = out.initSockets(1)[0];
      socket.setProtocol("tcp"), socket.setState("ESTABLISHED");
      socket.setLocalAddress("10.244.0.2"), socket.setLocalPort(1000 + process);
      socket.setRemoteAddress("10.96.0.1"), socket.setRemotePort(443);
      return true;
    }
    return false;
  }
};

}  // namespace talos
