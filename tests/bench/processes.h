// For figures: processes of a measurement, among them the daemon that was built beside the program.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/node-layout.h"
#include "common/testing/test-port.h"

namespace talos::bench {

// A child that goes with this process; its exit is an error of the measurement.
template <typename F>
pid_t child(F&& run) {
  pid_t parent = getpid();
  pid_t pid;
  KJ_SYSCALL(pid = fork());
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(run)) {
      fprintf(stderr, "%s\n", kj::str(*e).cStr());
    }
    _exit(1);
  }
  return pid;
}

inline kj::String besideThis(kj::StringPtr name) {
  char self[4096];
  ssize_t length;
  KJ_SYSCALL(length = readlink("/proc/self/exe", self, sizeof self - 1));
  self[length] = '\0';
  return kj::str(kj::heapString(self, strrchr(self, '/') - self), "/", name);
}

// Becomes the daemon of this name.
inline void execDaemon(kj::StringPtr name, int tcpSocket, kj::StringPtr socketPath) {
  auto program = besideThis(name);
  KJ_SYSCALL(access(program.cStr(), X_OK), program);  // stderr is that of the daemon afterwards
  KJ_SYSCALL(fcntl(tcpSocket, F_SETFD, 0));
  setenv(kListenTcpVariable.cStr(), kj::str(tcpSocket).cStr(), 1);
  setenv(kStoreVariable.cStr(), socketPath.cStr(), 1);
  int null;
  KJ_SYSCALL(null = open("/dev/null", O_WRONLY));
  dup2(null, STDERR_FILENO);
  execl(program.cStr(), name.cStr(), nullptr);
  KJ_FAIL_SYSCALL("execl", errno, program);
}

inline uint64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

struct Figure {
  double p50, p99;
};

// Returns the percentiles, in microseconds, of times in nanoseconds.
inline Figure figureOf(kj::Vector<uint64_t> took) {
  KJ_REQUIRE(!took.empty(), "nothing was done in the time that it was measured for");
  std::sort(took.begin(), took.end());
  return {took[took.size() / 2] / 1e3, took[took.size() * 99 / 100] / 1e3};
}

inline kj::String json(const Figure& figure) {
  char text[96];
  snprintf(text, sizeof text, "{\"p50us\":%.1f,\"p99us\":%.1f}", figure.p50, figure.p99);
  return kj::str(text);
}

}  // namespace talos::bench
