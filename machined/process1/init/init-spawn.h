// Starts one child: clone3 with a pidfd, directly in its cgroup; the outcome of exec comes over a
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
  int oomScore = 0;  // 0: unchanged
  // Memory limit of the cgroup, in force before the child enters it. 0: no limit.
  uint64_t memoryMax = 0;
};

struct Launched {
  int pid = -1;
  int pidfd = -1;
  int status = -1;  // nothing and end of file: exec succeeded (or the child died); else a Failure
};

// The message that the child writes to the pipe if it could not exec.
struct Failure {
  int error;
  char step[60];
};

// Returns 0, or an errno with a description in `reason` (kReasonSize). Does not wait for exec.
int launch(const Launch& launch, Launched& launched, char* reason);

// Makes the cgroup with all its parents; each parent passes on the controllers that the kernel has.
// Returns 0 or an errno.
int makeCgroup(const char* root, const char* path);

// Makes this cgroup and moves the calling process from the root into it; only then passes
// controllers on. A node in a container has a root that is not the kernel's: while a process is in
// it, the kernel makes it a threaded root as soon as it passes any controllers on, and no process
// can enter the cgroups below. Returns 0 or an errno.
int enterCgroup(const char* root, const char* name);

// Writes the limit (0: no limit) into a cgroup's folder, of either version. Returns 0 or an errno;
// also 0 on a kernel or in a container without the controller, where no limit can be set.
int limitMemory(int cgroup, uint64_t bytes);

}  // namespace talos::process1
