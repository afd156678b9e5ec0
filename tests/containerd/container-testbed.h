// The real process 1 in a separate pid namespace, with testbed-brain.cc as its brain, on the files,
// network and cgroups of this machine. All processes that it starts, containers included, end with
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
  // `folder`: has base.toml. `brain`: path of the program.
  ContainerTestbed(const std::string& brain, const std::string& folder,
                   const std::vector<Service>& services);
  ~ContainerTestbed();
  ContainerTestbed(const ContainerTestbed&) = delete;

  int process1() const { return init; }
  // Returns the pid of process 1's child with this program name; 0 if there is none.
  int process(const std::string& name) const;
  int brain() const { return process("testbed-brain"); }
  int containerd() const { return process("containerd"); }
  // Cgroup below "system", removed with the object, as those of the services are.
  std::string podCgroup;
  // Tells process 1 to power off and waits for its end; returns false at the deadline.
  bool powerOff(double deadlineSeconds);
  std::string console() const;

 private:
  int init = -1;
  std::string folder;
  std::vector<Service> services;
};

}  // namespace talos::test
