// Starts one child: clone3 with a pidfd, straight into its cgroup; the outcome of exec comes over a
// pipe.
#pragma once

#include "machined/process1/init/init-protocol.h"

namespace talos::process1 {

struct Launch {
  char* const* argv;
  char* const* environment;
  const char* cgroupRoot;       // "" : stay in the cgroup of process 1
  const char* memoryRoot = "";  // of version 1: a cgroup of the same name there counts the memory
  const char* cgroup;
  int output = -1;  // -1: /dev/null
  unsigned passed = 0;
  const int* fds = nullptr;
  const uint8_t* as = nullptr;
  int oomScore = 0;  // 0: leave it
  // Of the cgroup, in force before the child is in it. 0: none.
  uint64_t memoryMax = 0;
};

struct Launched {
  int pid = -1;
  int pidfd = -1;
  int status = -1;  // nothing and end of file: exec succeeded (or the child died); else a Failure
};

// The child writes this to the pipe when it could not exec.
struct Failure {
  int error;
  char step[60];
};

// 0, or an errno with what failed in `reason` (kReasonSize). Does not wait for exec.
int launch(const Launch& launch, Launched& launched, char* reason);

// Makes the cgroup with all its parents; in each parent the controllers are passed on as far as the
// kernel has them. 0 or an errno.
int makeCgroup(const char* root, const char* path);

// Makes this cgroup and moves the calling process from the root into it; only then controllers are
// passed on. A node in a container has a root that is not the kernel's: with a process in it the
// kernel makes it a root of threads as soon as it passes any on, and no process can enter the
// cgroups below. 0 or an errno.
int enterCgroup(const char* root, const char* name);

// Writes the limit (0: none) into a cgroup's folder, of either version. A kernel or container
// without the controller has none to set: that is 0 too. Otherwise an errno.
int limitMemory(int cgroup, uint64_t bytes);

}  // namespace talos::process1
