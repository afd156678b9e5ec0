// A full disk of a node in a container, and changes of such a node's mounts.
//
// The mounts are those of the node's namespace alone: they are gone when the node is off, and the
// host never has them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace talos::harness {

// Runs `work` in a child that joins the mount namespace of process `pid`. The test fails if `work`
// returns less than 0.
void inMountsOf(pid_t pid, const std::function<int()>& work);

// A disk of 320 MiB of which 2 % are available, mounted in the node until the object is destroyed.
class FilledDisk {
 public:
  static constexpr const char* kMountedOn = "/var/filled";

  // Keeps the disk's content in a file below `folder`; `node` is the node's process 1.
  FilledDisk(const std::string& folder, pid_t node);
  ~FilledDisk();
  FilledDisk(const FilledDisk&) = delete;

 private:
  std::string image;
  pid_t node;
};

}  // namespace talos::harness
