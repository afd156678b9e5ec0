// A whole node beside this program: the real process 1 (its loop) as the first process of a pid
// namespace, the real machined as its brain, and the real daemons. Its root is this host's with a
// layer of memory on top; it has its own network and host name. The mode is container, so nothing
// is mounted and no kernel is touched. Needs root. All of it ends with the object.
#pragma once

#include <kj/async.h>
#include <kj/string.h>

#include <string>

#include "rpc/node.capnp.h"

namespace talos::kill {

class NodeTestbed {
 public:
  // `programs`: the folder with machined, networkd and the other daemons.
  explicit NodeTestbed(const std::string& programs);
  ~NodeTestbed();
  NodeTestbed(const NodeTestbed&) = delete;

  // Returns the node's first process, whose /proc entry has its namespaces, as this host sees it.
  int firstProcess() const { return init; }
  // Returns the pid of the program of this name that process 1 runs now; 0 if there is none.
  int process(const std::string& name) const;
  int brain() const { return process("machined"); }
  // Returns the path of machined's socket, as this host sees it.
  std::string socket() const;
  // Returns the newest output of process 1 and the brains, bounded.
  std::string console();

 private:
  int init = -1;
  int consoleEnd = -1;
  std::string said;
};

// Returns the first config of a control-plane node, as its own machined makes it.
inline kj::Promise<kj::String> firstConfig(rpc::Node::Client node) {
  auto request = node.configurationRequest().send().getConfiguration().generateRequest();
  request.initRequest().setClusterName("world");
  request.getRequest().setEndpoint("https://10.0.0.1:6443");
  return request.send().then([](auto&& answer) {
    for (auto file : answer.getDocuments()) {
      if (file.getName() == "controlplane.yaml") {
        return kj::heapString(file.getContent().asChars());
      }
    }
    return kj::String();
  });
}

}  // namespace talos::kill
