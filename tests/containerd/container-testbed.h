// The real process 1 in a pid namespace of its own, with testbed-brain.cc as its brain, on the
// files, network and cgroups of this machine. Whatever it starts, containers included, ends with
// the object. Needs root.
#pragma once

#include <string>
#include <vector>

namespace talos::test {

class ContainerTestbed {
 public:
  struct Service {
    std::string id, image;
  };
  // `folder`: with base.toml. `brain`: the program.
  ContainerTestbed(const std::string& brain, const std::string& folder,
                   const std::vector<Service>& services);
  ~ContainerTestbed();
  ContainerTestbed(const ContainerTestbed&) = delete;

  int process1() const { return init; }
  // A child of process 1 by its program's name; 0 while there is none.
  int process(const std::string& name) const;
  int brain() const { return process("testbed-brain"); }
  int containerd() const { return process("containerd"); }
  // Below the cgroup "system": removed with the object, as those of the services are.
  std::string podCgroup;
  // Tells process 1 to power off, and waits for that: true when it came to it in time.
  bool powerOff(double deadlineSeconds);
  std::string console() const;

 private:
  int init = -1;
  std::string folder;
  std::vector<Service> services;
};

}  // namespace talos::test
