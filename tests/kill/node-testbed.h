// A whole node beside this program: the real process 1 (its loop) as the first process of a pid
// namespace, the real machined as its brain, and the real daemons, on a root that is this one with
// a layer of memory on top; network and host name are its own. Mode container, so nothing is
// mounted and no kernel is touched. Needs root. Nothing outlives the object.
#pragma once

#include <string>

namespace talos::kill {

class NodeTestbed {
 public:
  // `programs`: the folder with machined, networkd and so on.
  explicit NodeTestbed(const std::string& programs);
  ~NodeTestbed();
  NodeTestbed(const NodeTestbed&) = delete;

  // Its first process, and with it its namespaces in /proc, as seen from here.
  int firstProcess() const { return init; }
  // The pid of the program of this name that process 1 runs now; 0 while there is none.
  int process(const std::string& name) const;
  int brain() const { return process("machined"); }
  // machined's socket, as seen from here.
  std::string socket() const;
  // Output of process 1 and the brains; bounded, the newest.
  std::string console();

 private:
  int init = -1;
  int consoleEnd = -1;
  std::string said;
};

}  // namespace talos::kill
