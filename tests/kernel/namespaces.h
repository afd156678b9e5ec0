// Network namespaces of the tests: made by a thread that lives for one test, kept by a descriptor.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <unistd.h>

#include "common/netlink/netlink.h"
#include "common/testing/test-ip.h"
#include "common/testing/test-namespace.h"

namespace talos {

class Namespace {
 public:
  Namespace() {
    inNamespace([this] {
      int raw;
      KJ_SYSCALL(raw = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
      fd = kj::AutoCloseFd(raw);
    });
  }
  KJ_DISALLOW_COPY(Namespace);

  // Runs it on a thread that is inside; an exception fails the test.
  template <typename F>
  void run(F&& body) {
    onThread([&] {
      KJ_SYSCALL(setns(fd, CLONE_NEWNET));
      body();
    });
  }

  int descriptor() const { return fd; }

 private:
  kj::AutoCloseFd fd;
};

// The error of a change; 0: none.
inline int codeOf(netlink::Kernel& kernel, netlink::Change change, kj::String* words = nullptr) {
  auto failures = kernel.apply(kj::arrayPtr(&change, 1));
  KJ_IF_MAYBE (failure, failures[0]) {
    if (words != nullptr) *words = kj::str(failure->message);
    return failure->code;
  }
  return 0;
}

}  // namespace talos
